"""Commits of real DuckDB processes against Sexton's claims, for the same files."""

import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from examples.demo.duckdb_client import DuckDb, DuckDbError
from sexton.contract import NewMark
from tests.support.lake import LATER, AttachedLake

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


@pytest.mark.slow
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
