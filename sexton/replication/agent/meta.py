"""Read and write a storage node's meta store: the SQLite file ``meta.db`` in its data directory.

Only the storage node creates the file. A directory without it is a disk that is not mounted: nothing counts as deleted.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sexton.replication.agent.model import BACKEND_KEY, MAX_VALUE_BYTES
from sexton.replication.errors import NoStore, OtherBackend, StoreBusy, StoreFault
from sexton.storage.local.files import MissingDirectory, open_location

NAME = "meta.db"
BUSY_SECONDS = 30.0
# As bytes: a value that is not UTF-8 is malformed, but must not stop the reading of the other entries.
_BOUNDED = f"coalesce(substr(CAST(value AS BLOB), 1, {MAX_VALUE_BYTES + 1}), x'')"
_GET = f"SELECT {_BOUNDED} FROM entry WHERE key = CAST(? AS TEXT)"
_FROM = "key >= CAST(? AS TEXT) AND key < CAST(? AS TEXT)"
_SCAN = f"SELECT CAST(key AS BLOB), {_BOUNDED} FROM entry WHERE {_FROM} ORDER BY key LIMIT ?"
_REMOVE = "DELETE FROM entry WHERE key = CAST(? AS TEXT)"


class SqliteMeta:
    """A node's meta store, which the node itself also writes. Keys are ordered by their bytes.

    One thread at a time; other processes may use the file at the same time.
    """

    def __init__(self, directory: Path, backend: str, busy_seconds: float = BUSY_SECONDS) -> None:
        """Store the arguments; the file in the node's data directory is opened on first use.

        The directory must belong to ``backend``. ``busy_seconds``: how long to wait while the node writes.
        """
        self._directory, self._backend, self._busy = directory, backend, busy_seconds
        self._open: sqlite3.Connection | None = None
        self._file = (0, 0)

    @contextmanager
    def proven(self) -> Iterator[int]:
        """Open the data directory and prove that it is this backend's and that this store is the one in it.

        The context manager returns the directory's file descriptor.

        Raises:
            NoStore: there is no store, or another file than before.
            OtherBackend: it belongs to another backend.
        """
        with ExitStack() as open_:
            try:
                root = open_.enter_context(open_location(str(self._directory)))
                status = os.stat(NAME, dir_fd=root)
            except (MissingDirectory, OSError) as e:
                self.close()
                raise NoStore(
                    f"there is no {NAME} in {self._directory} ({e}); is its disk mounted? The storage node creates it"
                ) from e
            file = (status.st_dev, status.st_ino)
            if self._open is not None and file != self._file:
                self.close()  # earlier reads are from another file: the caller must start over
                raise NoStore(f"{self._directory / NAME} is another file than before; the next sweep opens it again")
            self._file = file
            try:
                backend = self.get(BACKEND_KEY)
            except StoreFault as e:
                self.close()
                raise NoStore(f"{self._directory / NAME} cannot be read as a meta store: {e}") from e
            if backend is None:
                raise NoStore(f"{self._directory / NAME} names no backend; the storage node must write {BACKEND_KEY!r}")
            if backend != self._backend.encode():
                owner = backend[:130].decode(errors="backslashreplace")
                raise OtherBackend(
                    f"{self._directory} belongs to backend {owner}, this one is {self._backend}; "
                    "check --backend-id, --data-dir and the mounts"
                )
            yield root

    def get(self, key: bytes) -> bytes | None:
        """Return a value; a long one is cut to ``model.MAX_VALUE_BYTES`` + 1 bytes."""
        with self._faults():
            row = self._connection().execute(_GET, (key,)).fetchone()
        return None if row is None else row[0]

    def scan(self, begin: bytes, end: bytes, count: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
        """Yield pages of at most ``count`` keys from ``begin`` to before ``end``, with values as in ``get``."""
        while True:
            with self._faults():
                page = self._connection().execute(_SCAN, (begin, end, count)).fetchall()
            if page:
                yield page
            if len(page) < count:
                return
            begin = page[-1][0] + b"\0"  # the key right behind it

    def remove(self, keys: Sequence[bytes]) -> None:
        """Delete keys: all or none, durably. A key that does not exist counts as deleted."""
        with self._faults():
            connection = self._connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_REMOVE, [(key,) for key in keys])
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            uri = f"{(self._directory / NAME).absolute().as_uri()}?mode=rw"
            opened = sqlite3.connect(uri, uri=True, timeout=self._busy, isolation_level=None, check_same_thread=False)
            opened.execute("PRAGMA synchronous = FULL")
            self._open = opened
        return self._open

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as e:
            message = f"{self._directory / NAME}: {e}"
            if getattr(e, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreBusy(f"{message}; does the storage node keep a transaction open?") from e
            raise StoreFault(message) from e
