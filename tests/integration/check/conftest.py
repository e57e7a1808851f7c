"""An owner with the view ``sexton_live``, whose vault is a directory."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.rig import DAY, Rig, put, stores_of
from tests.support.transactions import owner_write

LONG_AGO = 10 * DAY
PATTERN = r"data/[a-z0-9]+/(?P<record>[A-Za-z0-9.-]+)_\d+\.dat"


class Owned(Rig):
    """One instance ``shop`` of an owner that shows what is live in a view of its own."""

    root: Path

    def __init__(self, url: str, **more: Any) -> None:
        super().__init__(url, **more)
        self.owner = stores_of(self.db).owners  # the owner as a worker sees it
        self.recycler = self.recycler_of(self.owner)

    def register(self, root: Path) -> "Owned":
        """Register the instance with one vault and a key pattern; return the rig."""
        self.instance()
        self.root = self.local(root)
        self.registry.set_key_pattern("shop", PATTERN)
        return self

    def live_rows(self, *rows: tuple[str, int | None], vault: str = "disk", kind: str = "rowset") -> None:
        """Insert rows into the live view: keys with their sizes."""
        with owner_write(self.db) as c:
            for key, size in rows:
                row = {"kind": kind, "id": key.split("/")[-1], "vault": vault, "key": key, "bytes": size}
                c.execute(text("INSERT INTO file VALUES (:kind, :id, :vault, :key, :bytes)"), row)

    def forget(self, *keys: str) -> None:
        """Delete keys from the live view."""
        with owner_write(self.db) as c:
            for key in keys:
                c.execute(text("DELETE FROM file WHERE key = :key"), {"key": key})

    def write_old(self, key: str, size: int = 10, *, age: float = LONG_AGO) -> Path:
        """Write a file and set its age in seconds; return its path."""
        path = put(self.root, key, size)
        self.set_age(path, age)
        return path

    def set_age(self, path: Path, age: float) -> None:
        """Move the time of a file back by an age in seconds."""
        at = path.stat().st_mtime - age
        os.utime(path, (at, at))

    def write_live(self, *keys: str, size: int = 10) -> None:
        """Write old files, and insert them into the live view."""
        for key in keys:
            self.write_old(key, size)
        self.live_rows(*((key, size) for key in keys))

    def orphaned(self, *keys: str) -> None:
        """Write old files among many that are in order, and check until they are confirmed orphans, if ever."""
        self.write_live(*file_keys(400))
        for key in keys:
            self.write_old(key)
        self.check()
        self.check(after=DAY + 60)


def file_keys(n: int, tablet: str = "t1") -> Sequence[str]:
    """Return keys of the owner's naming scheme."""
    return [f"data/{tablet}/r{i}_0.dat" for i in range(n)]


@contextmanager
def live_view(owned: Owned) -> Iterator[None]:
    """Create the owner's table of files and the view ``sexton_live`` over it."""
    with owner_write(owned.db) as c:
        c.exec_driver_sql("CREATE TABLE file (kind text, id text, vault text, key text, bytes bigint)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")
    yield


@pytest.fixture
def owned(database_url: str, tmp_path: Path) -> Iterator[Owned]:
    """An owner whose view is empty."""
    owned = Owned(database_url).register(tmp_path / "disk")
    with live_view(owned):
        yield owned
    owned.db.close()
