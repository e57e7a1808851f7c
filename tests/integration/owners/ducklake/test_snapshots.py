"""Transactions of a lake read one snapshot: what it does not show must not be overlooked.

DuckDB repeats a commit whose error names a concurrent change, with a new snapshot.
"""

import time

import psycopg
import pytest

from examples.demo.duckdb_client import DuckDbError
from tests.integration.database.query_plans import rows_touched
from tests.support.lake import AttachedLake

MARKS = 50_000


def shorten_snapshots(lake: AttachedLake) -> None:
    """Let a snapshot be too old after a second instead of five minutes."""
    with lake.rig.db.write() as c:
        source = c.exec_driver_sql("SELECT pg_get_functiondef('sexton.reference(text,text[])'::regprocedure)").scalar()
        assert "'5 minutes'" in str(source)
        shorter = str(source).replace("'5 minutes'", "'1 second'")
        c.execution_options(no_parameters=True).exec_driver_sql(shorter)


def test_a_commit_whose_snapshot_a_claim_followed_is_repeated(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)", "BEGIN", "INSERT INTO t FROM range(7)")
    lake.rig.sql("UPDATE {}instance_guard SET seq = seq + 1")  # as each claim does

    lake.db.run("COMMIT")

    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[10]]


def test_a_commit_of_an_old_snapshot_is_repeated(lake: AttachedLake) -> None:
    shorten_snapshots(lake)
    lake.db.run("CREATE TABLE t AS FROM range(3)", "BEGIN", "INSERT INTO t FROM range(7)")
    time.sleep(1.2)

    lake.db.run("COMMIT")

    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[10]]


def test_a_mark_that_no_snapshot_showed_is_taken_back(lake: AttachedLake) -> None:
    shorten_snapshots(lake)
    lake.db.run("CREATE TABLE t AS FROM range(3)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    with lake.another() as other:
        other.run("BEGIN", f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")
        lake.db.run("DROP TABLE t")
        lake.db.expire()
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


def test_a_refused_commit_leaves_the_lake_readable(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    lake.db.run("DROP TABLE t")
    lake.db.expire()
    lake.rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = 1")

    with pytest.raises(DuckDbError, match="SX001"):
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")

    lake.db.run("INSERT INTO again FROM range(4)")
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[4]]


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
