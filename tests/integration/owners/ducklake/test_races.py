"""Commits of real DuckDB processes against Sexton's claims; a transaction's snapshot must not let it overlook a claim.

DuckDB repeats a commit whose error names a concurrent change, with a new snapshot.
"""

import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from examples.demo.duckdb_client import DuckDb, DuckDbError
from sexton.contract import NewMark
from tests.integration.database.query_plans import rows_touched
from tests.support.lake import LATER, AttachedLake

pytestmark = pytest.mark.slow

FILES = 40
"""Files that one round claims while two processes register them."""
REFUSALS = ("SX001", "No files found", "Cannot open file")


def marked_files(lake: AttachedLake) -> list[str]:
    """Make copies of a Parquet file, and a due mark of each, as if the lake had dropped them; return their keys."""
    source = lake.data.parent / "source.parquet"
    if not source.exists():
        lake.db.run(f"COPY (SELECT 5 AS a) TO '{source}'")
    ids = [str(uuid.uuid4()) for _ in range(FILES)]
    keys = [f"ducklake-{id_}.parquet" for id_ in ids]
    for key in keys:
        shutil.copyfile(source, lake.data / key)
    marks = (NewMark(id=id_, vault="lake", keys=(key,)) for id_, key in zip(ids, keys, strict=True))
    lake.rig.mark("dropped", *marks)
    lake.rig.later(LATER)
    return keys


def register(db: DuckDb, lake: AttachedLake, keys: list[str], tried: list[str], refused: list[str]) -> None:
    """Add each file to a table in a transaction of its own; note those that were tried, and that the lake refused."""
    for key in keys:
        tried.append(key)
        try:
            db.sql(f"CALL ducklake_add_data_files('lake', 't', '{lake.data / key}')")
        except DuckDbError as e:
            if not any(reason in str(e) for reason in REFUSALS):
                raise
            refused.append(key)


def race(lake: AttachedLake, others: list[DuckDb], ahead: int, seen: dict[str, int]) -> None:
    """Run one round against the processes, once they tried so many files, and count how each file ended."""
    keys, tried, refused = marked_files(lake), [], []
    halves = (keys[: FILES // 2], keys[FILES // 2 :])
    with ThreadPoolExecutor(len(others)) as pool:
        registering = [
            pool.submit(register, other, lake, half, tried, refused) for other, half in zip(others, halves, strict=True)
        ]
        while len(tried) < ahead and not all(half.done() for half in registering):
            time.sleep(0.001)
        lake.rig.round()
    for half in registering:
        half.result()
    in_lake, exists = lake.listed("t"), lake.files()
    claimed = {key for key in keys if key not in exists} | set(lake.marks()) & set(keys)
    seen["committed"] += len(in_lake & set(keys))
    seen["claimed"] += len(claimed)
    seen["both"] += len(in_lake - exists)
    seen["wrongly committed"] += len(in_lake & set(refused))


def run_races(lake: AttachedLake, races: int) -> dict[str, int]:
    seen = dict.fromkeys(("committed", "claimed", "both", "wrongly committed"), 0)
    lake.db.run("CREATE TABLE t(a INTEGER)")
    with lake.another() as first, lake.another() as second:
        for number in range(races // FILES):
            race(lake, [first, second], number % FILES, seen)
            lake.db.run("DELETE FROM t")
            assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[0]]
    return seen


def test_no_file_is_both_committed_and_claimed(lake: AttachedLake) -> None:
    seen = run_races(lake, 400)

    print(seen)
    assert (seen["both"], seen["wrongly committed"]) == (0, 0)
    assert min(seen["committed"], seen["claimed"]) > 0


@pytest.mark.soak
@pytest.mark.timeout(14_400)  # half an hour on an idle machine
def test_no_file_is_both_in_50_000_races(lake: AttachedLake) -> None:
    seen = run_races(lake, 50_000)

    print(seen)
    assert (seen["both"], seen["wrongly committed"]) == (0, 0)
    assert min(seen["committed"], seen["claimed"]) > 0


MARKS = 50_000


def shorten_snapshots(lake: AttachedLake) -> None:
    """Let a snapshot be too old after a second instead of five minutes."""
    with lake.rig.db.write() as c:
        source = c.exec_driver_sql("SELECT pg_get_functiondef('sexton.reference(text,text[])'::regprocedure)").scalar()
        assert "'5 minutes'" in str(source)
        shorter = str(source).replace("'5 minutes'", "'1 second'")
        c.execution_options(no_parameters=True).exec_driver_sql(shorter)


def test_a_commit_of_an_overtaken_or_old_snapshot_is_repeated(lake: AttachedLake) -> None:
    shorten_snapshots(lake)
    lake.db.run("CREATE TABLE t AS FROM range(3)", "BEGIN", "INSERT INTO t FROM range(7)")
    lake.rig.sql("UPDATE {}instance_guard SET seq = seq + 1")  # as each claim does
    lake.db.run("COMMIT", "BEGIN", "INSERT INTO t FROM range(5)")
    time.sleep(1.2)

    lake.db.run("COMMIT")

    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[15]]


def test_a_mark_that_no_snapshot_showed_is_taken_back(lake: AttachedLake) -> None:
    shorten_snapshots(lake)
    lake.db.run("CREATE TABLE t AS FROM range(3)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    with lake.another() as other:
        other.run("BEGIN", f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")
        lake.run_and_expire("DROP TABLE t")
        marked = lake.marks()
        time.sleep(1.2)
        other.run("COMMIT")

    assert (marked, lake.marks()) == ({key: "dropped"}, {})
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[3]]


def test_two_expiries_at_once_lose_nothing(lake: AttachedLake) -> None:
    shared = lake.data / "shared.parquet"
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{shared}'", "CREATE TABLE v1(a INTEGER)", "CREATE TABLE v2(a INTEGER)")
    for table in ("v1", "v2"):
        lake.db.run(f"CALL ducklake_add_data_files('lake', '{table}', '{shared}')")
    lake.db.run("DROP TABLE v1")
    with lake.another() as other:
        lake.db.run("BEGIN", "CALL ducklake_expire_snapshots('lake', older_than => now())")
        other.run("DROP TABLE v2")
        lake.db.run("COMMIT")
        early = lake.marks()
        lake.db.expire()

    assert (early, lake.marks()) == ({}, {"shared.parquet": "dropped"})


def test_the_triggers_compare_no_file_with_every_mark(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    files, name = "generate_series(1, 1000) n", "'ducklake-' || gen_random_uuid() || '.parquet'"
    with psycopg.connect(lake.url.replace("+psycopg", "")) as c:
        for statement in (
            "ALTER TABLE sexton.mark SET (autovacuum_enabled = false)",  # so that there are no statistics
            "INSERT INTO sexton.mark (instance, kind, id, vault, keys) "
            f"SELECT 'shop', 'dropped', gen_random_uuid(), 'lake', '[\"x\"]' FROM generate_series(1, {MARKS})",
        ):
            c.execute(statement.encode())
        before = rows_touched(c, "mark")
        for statement in (
            "INSERT INTO lake.ducklake_data_file (data_file_id, table_id, path, path_is_relative) "
            f"SELECT 1000 + n, 1, {name}, true FROM {files}",
            "INSERT INTO lake.ducklake_files_scheduled_for_deletion "
            f"SELECT 9000 + n, 'main/t/' || {name}, true, now() FROM {files}",
        ):
            c.execute(statement.encode())
        marked = c.execute("SELECT count(*) FROM sexton.mark").fetchone()
        touched = rows_touched(c, "mark") - before

    assert marked == (MARKS + 1_000,)
    assert touched <= 20 * MARKS  # not once for each of the files
