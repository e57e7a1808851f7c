"""Open the sessions that read owners' live views: read-only, forgetful, and never waiting longer than a limit.

PostgreSQL ends a statement at its time limit only where its code checks for interrupts. The division of long numerics
does not, so a view may compute for hours. The session itself therefore stops waiting.
"""

import os
import socket
import struct
import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from sexton.database.session import MOST_MESSAGE, OPTIONS

_LIVE_OPTIONS = f"{OPTIONS} -c default_transaction_read_only=on"
_LIVE_CONNECTIONS = 20
"""Sessions of one login that read live views at the same time; two of them stay open."""
WAIT_SECONDS = 25
"""How long a session waits for an answer of the server, unless a transaction sets another limit."""
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one answer of the server: an error message of PostgreSQL repeats a value of up to 1 GB."""
_RECEIVED_AT = 128
"""Where Linux puts the number of received bytes (``tcpi_bytes_received``) in what TCP_INFO returns."""

Answer = TypeVar("Answer")


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time, or with too much; the session closed, and ``process`` may still compute."""

    def __init__(self, message: str, process: int) -> None:
        super().__init__(message)
        self.process = process


class LiveSession(psycopg.Connection[Any]):
    """A session that closes itself when an answer is late or huge, and keeps short error messages only."""

    wait_seconds: float = WAIT_SECONDS

    def wait(self, gen: PQGen[Answer], *args: Any, **kwargs: Any) -> Answer:
        """Return the server's answer: the driver waits here for each statement."""
        try:
            return super().wait(self._in_time(gen), *args, **kwargs)
        except psycopg.Error as e:
            if len(str(e)) > MOST_MESSAGE:  # the causes of an error are stored and logged, too
                e.args, e._info = (str(e)[:MOST_MESSAGE],), None
            raise

    def _in_time(self, gen: PQGen[Answer]) -> PQGen[Answer]:
        """Pass on what the driver waits for, several times in a second; raise ``NoAnswer`` after a limit."""
        until, most = time.monotonic() + self.wait_seconds, self._received() + MOST_BYTES
        why = f"no answer within {self.wait_seconds:,} s"
        try:
            awaited = next(gen)
            while time.monotonic() <= until:
                if self._received() > most:
                    why = f"an answer of more than {MOST_BYTES:,} bytes"
                    break
                awaited = gen.send((yield awaited))
        except StopIteration as e:
            answer: Answer = e.value
            return answer
        process = self.pgconn.backend_pid
        self.close()
        raise NoAnswer(f"{why}, so the session was closed", process)

    def _received(self) -> int:
        """Return how many bytes came from the server, also encrypted ones; 0 where no TCP of Linux counts them."""
        try:
            with socket.socket(fileno=os.dup(self.pgconn.socket)) as counted:
                info = counted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + 8)
        except (AttributeError, OSError, psycopg.Error):
            return 0
        return int(struct.unpack_from("@Q", info, _RECEIVED_AT)[0]) if len(info) >= _RECEIVED_AT + 8 else 0


def open_live(url: URL) -> Engine:
    """Return an engine whose transactions are read-only, and whose sessions forget everything after each of them.

    A function of an owner's view may change its session: settings, prepared statements, locks. The next transaction
    of the session may read another owner's view, so no statement is prepared by name, and DISCARD ALL ends each use.
    """
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",
        pool_size=2,
        max_overflow=_LIVE_CONNECTIONS - 2,
        pool_pre_ping=True,
        pool_reset_on_return=None,
        connect_args={"options": _LIVE_OPTIONS, "connect_timeout": 10, "prepare_threshold": None},
        execution_options={"postgresql_readonly": True},
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: Any, parameters: Any) -> Any:
        return LiveSession.connect(*args, **parameters)

    @event.listens_for(engine, "reset")
    def discard(dbapi_connection: Any, _record: Any, state: Any) -> None:
        if not state.terminate_only:
            dbapi_connection.wait_seconds = WAIT_SECONDS
            dbapi_connection.rollback()
            dbapi_connection.autocommit = True
            dbapi_connection.execute("DISCARD ALL")
            dbapi_connection.autocommit = False

    return engine
