"""A storage node's meta store as the node writes it: its table, and the keys and values of its entries."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from sexton.replication.agent.meta import NAME, SqliteMeta

SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    key TEXT NOT NULL PRIMARY KEY CHECK (typeof(key) = 'text'),
    value TEXT NOT NULL
) WITHOUT ROWID
"""
PUT = "INSERT OR REPLACE INTO entry (key, value) VALUES (CAST(? AS TEXT), CAST(? AS TEXT))"


class NodeMeta(SqliteMeta):
    """The meta store of a node, which creates it and its entries."""

    @classmethod
    def create(cls, directory: Path, backend: str) -> Self:
        """Create the store of a new backend, or open the existing one."""
        with closing(sqlite3.connect(directory / NAME)) as c, c:
            c.execute("PRAGMA journal_mode = WAL")
            c.execute(SCHEMA)
            c.execute("INSERT OR IGNORE INTO entry VALUES ('backend_id', ?)", (backend,))
        store = cls(directory, backend)
        with store.proven():
            return store

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Write entries."""
        with closing(sqlite3.connect(self._directory / NAME)) as c, c:
            c.executemany(PUT, list(entries.items()))


def meta_key(uid: str, version: int, rowset: str) -> bytes:
    """Return the ``binlog_meta_`` key of an entry."""
    return f"binlog_meta_{uid}_{version:020}_{rowset}".encode()


def data_key(uid: str, version: int, rowset: str) -> bytes:
    """Return the ``binlog_data_`` key of an entry."""
    return f"binlog_data_{uid}_{version:020}_{rowset}".encode()
