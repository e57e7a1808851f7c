"""What an attached lake in SQLite costs: the text that each connection parses, and the steps of a statement."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from sexton.owners.ducklake.model import Lake
from sexton.owners.ducklake.sqlite import SqliteLake
from tests.support.lake import AttachedLake

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

NAME = "year=2026/month=01/day=01/hour=00/minute=00/part-00000.parquet"
"""Longer than what the index has first of a path: the files of all sensors end alike."""


@pytest.fixture
def catalog(lake: AttachedLake) -> Iterator[sqlite3.Connection]:
    """Yield a connection of the lake's catalog, with a table."""
    lake.db.run("CREATE TABLE t(a BIGINT)")
    with closing(sqlite3.connect(lake.url.removeprefix("sqlite:///"), isolation_level=None)) as c:
        yield c


def register(c: sqlite3.Connection, first: int, count: int) -> None:
    """Register files that DuckLake did not name, of a sensor each."""
    rows = [(first + n, f"/other/sensor={first + n}/{NAME}") for n in range(count)]
    columns = "data_file_id, table_id, path, path_is_relative, file_size_bytes"
    c.execute("BEGIN")
    c.executemany(f"INSERT INTO ducklake_data_file ({columns}) VALUES (?, 1, ?, 0, 1)", rows)
    c.execute("COMMIT")


def unreference(c: sqlite3.Connection, number: int) -> None:
    """End the reference to a file, and list it to be deleted."""
    c.execute("DELETE FROM ducklake_data_file WHERE data_file_id = ?", (number,))
    row = (number, f"/other/sensor={number}/{NAME}")
    c.execute("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (?, ?, 0, '2026-01-01')", row)


def give_back(c: sqlite3.Connection) -> int:
    """Return how many files a detach gives back; nothing is changed."""
    c.execute("BEGIN")
    number = c.execute(SqliteLake(Lake("shop", "lake", "", "/srv/")).take_back()[0]).rowcount
    c.execute("ROLLBACK")
    return number


def steps(c: sqlite3.Connection, number: int) -> tuple[int, int, int]:
    """Return the steps of SQLite's machine to register a file, to end its reference, and to give the marks back."""
    taken = []

    def count() -> None:
        taken[-1] += 1

    c.set_progress_handler(count, 1)
    for action in (lambda: register(c, number, 1), lambda: unreference(c, number), lambda: give_back(c)):
        taken.append(0)
        action()
    c.set_progress_handler(None, 1)
    registering, unreferencing, giving_back = taken
    return registering, unreferencing, giving_back


def test_each_connection_parses_little(catalog: sqlite3.Connection) -> None:
    [[length]] = catalog.execute(
        "SELECT sum(length(sql)) FROM sqlite_master WHERE name GLOB 'sexton_*' AND sql LIKE '%ducklake_%'"
        " OR tbl_name = 'sexton_file'"
    )

    assert 4_000 < length < 8_500


def test_the_steps_do_not_grow_with_the_files(catalog: sqlite3.Connection) -> None:
    register(catalog, 1_000, 100)
    few = steps(catalog, 5_000)
    register(catalog, 10_000, 2_000)
    unreference(catalog, 1_000)
    assert give_back(catalog) == 2

    many = steps(catalog, 5_001)

    assert all(0 < then < 2 * now for now, then in zip(few[:2], many[:2], strict=True))
    assert many[2] - few[2] < 2_000 * 200  # reads each file once


def test_the_steps_do_not_grow_with_the_marks(catalog: sqlite3.Connection) -> None:
    register(catalog, 10_000, 2_000)
    few = steps(catalog, 5_000)
    rows = [(n, f"/other/{n}.parquet") for n in range(300)]
    catalog.executemany("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (?, ?, 0, '2026-01-01')", rows)
    assert give_back(catalog) == 301

    many = steps(catalog, 5_001)

    assert all(0 < then < 2 * now for now, then in zip(few[:2], many[:2], strict=True))
    assert many[2] - few[2] < 301 * 2_000  # compares no mark with each file


def test_a_file_is_told_from_others_that_end_alike(lake: AttachedLake, catalog: sqlite3.Connection) -> None:
    register(catalog, 1_000, 3)

    unreference(catalog, 1_001)

    assert lake.marks() == {f"other/sensor=1001/{NAME}": "dropped"}
