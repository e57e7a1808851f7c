"""The meta store of a storage backend, in one SQLite file: the node writes it, and Sexton's backend worker cleans it.

Sexton knows its table, the key ``backend_id``, and the keys ``tablet_…``, ``binlog_meta_…`` and ``binlog_data_…``. All
other keys are private to the node.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

NAME = "meta.db"
BUSY_SECONDS = 30.0
SCHEMA = "CREATE TABLE IF NOT EXISTS entry (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


class MetaStore:
    """The meta store of one backend. Each use opens it: a worker in another process has it open too."""

    def __init__(self, directory: Path, backend: str) -> None:
        """Create it if missing; only the node does: Sexton treats a directory without one as not mounted."""
        self._file = directory / NAME
        with self._writing() as c:
            c.execute("PRAGMA journal_mode = WAL")
            c.execute(SCHEMA)
            # The owner of the directory: a worker that is configured with another backend's directory removes nothing.
            c.execute("INSERT OR IGNORE INTO entry VALUES ('backend_id', ?)", (backend,))

    def get(self, key: str) -> str | None:
        """Return a value."""
        with self._writing() as c:
            row = c.execute("SELECT value FROM entry WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def keys(self, prefix: str) -> list[str]:
        """Return the keys with a prefix, sorted."""
        with self._writing() as c:
            query = "SELECT key FROM entry WHERE substr(key, 1, ?) = ? ORDER BY key"
            return [key for (key,) in c.execute(query, (len(prefix), prefix))]

    def put(self, entries: Mapping[str, str]) -> None:
        """Write entries: all or none, durably."""
        with self._writing() as c:
            c.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", entries.items())

    def remove(self, key: str) -> None:
        """Remove an entry, if it exists."""
        with self._writing() as c:
            c.execute("DELETE FROM entry WHERE key = ?", (key,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=BUSY_SECONDS)) as c:
            c.execute("PRAGMA synchronous = FULL")
            with c:
                yield c
