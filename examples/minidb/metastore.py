"""The meta store of a storage backend, in one SQLite file: the node writes it, Sexton's worker beside it cleans it.

Of it Sexton knows the table, the key ``backend_id``, and the keys ``tablet_…``, ``binlog_meta_…`` and
``binlog_data_…``. All others are the node's own.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

NAME = "meta.db"
BUSY_SECONDS = 30.0
SCHEMA = "CREATE TABLE IF NOT EXISTS entry (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


class MetaStore:
    """That of one backend. Opened anew for each use: a worker in another process has it open too."""

    def __init__(self, directory: Path, backend: str) -> None:
        """Make it where it is not there; only the node does: to Sexton a directory without one is not mounted."""
        self._file = directory / NAME
        with self._writing() as c:
            c.execute("PRAGMA journal_mode = WAL")
            c.execute(SCHEMA)
            # Whose it is: a worker that was given another backend's directory by mistake removes nothing in it.
            c.execute("INSERT OR IGNORE INTO entry VALUES ('backend_id', ?)", (backend,))

    def get(self, key: str) -> str | None:
        """Return a value."""
        with self._writing() as c:
            found = c.execute("SELECT value FROM entry WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin so, in their order."""
        with self._writing() as c:
            asked = "SELECT key FROM entry WHERE substr(key, 1, ?) = ? ORDER BY key"
            return [key for (key,) in c.execute(asked, (len(prefix), prefix))]

    def put(self, entries: Mapping[str, str]) -> None:
        """Write entries: all or none, durably."""
        with self._writing() as c:
            c.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", entries.items())

    def remove(self, key: str) -> None:
        """Remove an entry, if it is there."""
        with self._writing() as c:
            c.execute("DELETE FROM entry WHERE key = ?", (key,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=BUSY_SECONDS)) as c:
            c.execute("PRAGMA synchronous = FULL")
            with c:
                yield c
