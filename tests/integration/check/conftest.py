"""An owner with the view ``sexton_live``, whose vault is a directory; and the ways to compare."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.rig import DAY, Rig, put, stores_of

LONG_AGO = 10 * DAY
PATTERN = r"data/[a-z0-9]+/(?P<record>[A-Za-z0-9.-]+)_\d+\.dat"


class Owned(Rig):
    """One instance ``shop`` of an owner that shows what is live in a view of its own."""

    root: Path

    def __init__(self, url: str, **more: Any) -> None:
        super().__init__(url, **more)
        self.owner = stores_of(self.db).owners  # whom a worker asks, not the owner alone
        self.recycler = self.recycler_of(self.owner)

    def opened(self, root: Path) -> "Owned":
        self.instance()
        self.root = self.local(root)
        self.registry.set_key_pattern("shop", PATTERN)
        return self

    def live_rows(self, *rows: tuple[str, int | None], vault: str = "disk", kind: str = "rowset") -> None:
        """Show keys with their sizes as live."""
        with self.db.write() as c:
            for key, size in rows:
                given = {"kind": kind, "id": key.split("/")[-1], "vault": vault, "key": key, "bytes": size}
                c.execute(text("INSERT INTO file VALUES (:kind, :id, :vault, :key, :bytes)"), given)

    def forget(self, *keys: str) -> None:
        """Show keys no more."""
        with self.db.write() as c:
            for key in keys:
                c.execute(text("DELETE FROM file WHERE key = :key"), {"key": key})

    def old(self, key: str, size: int = 10, *, age: float = LONG_AGO) -> Path:
        """Write a file so many seconds ago."""
        path = put(self.root, key, size)
        self.aged(path, age)
        return path

    def aged(self, path: Path, age: float) -> None:
        at = path.stat().st_mtime - age
        os.utime(path, (at, at))

    def both(self, *keys: str, size: int = 10) -> None:
        """Write files, and show them as live."""
        for key in keys:
            self.old(key, size)
        self.live_rows(*((key, size) for key in keys))


def names(n: int, tablet: str = "t1") -> Sequence[str]:
    """Return keys of the owner's form."""
    return [f"data/{tablet}/r{i}_0.dat" for i in range(n)]


@contextmanager
def table(owned: Owned) -> Iterator[None]:
    """Give it a table of files, and the view that shows them."""
    with owned.db.write() as c:
        c.exec_driver_sql("CREATE TABLE file (kind text, id text, vault text, key text, bytes bigint)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")
    yield
    if owned.db.dialect == "postgresql":  # the next test has the same database
        with owned.db.write() as c:
            c.exec_driver_sql("DROP VIEW sexton_live")
            c.exec_driver_sql("DROP TABLE file")


@pytest.fixture
def owned(clean_url: str, tmp_path: Path) -> Iterator[Owned]:
    """One whose view is empty yet, on SQLite and PostgreSQL in turn."""
    owned = Owned(clean_url).opened(tmp_path / "disk")
    with table(owned):
        yield owned
    owned.db.close()
