"""The Spark session that all workers of a deployment share.

Jobs carry tags. A cancelled job is interrupted until it has ended. A worker that takes work over first interrupts the
jobs that its predecessor left running on the server.
"""

import hashlib
import logging
import os
import re
import threading
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from grpc import RpcError
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

import config
import sexton
from sexton.kernel.errors import SextonError
from sexton.kernel.process import LOOK_SECONDS, beside, make_directory, open_file
from sexton.runtime.embedded.child import EmbeddedError
from sexton.runtime.spark.server import ConnectServer, find_java, is_local

log = logging.getLogger(__name__)
T = TypeVar("T")
GONE = (PySparkException, RpcError, ValueError)
"""Errors of a client whose server or channel has ended."""
_RAISED = re.compile(r"(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(Error|Exception|Fault|Silent|Input|Busy|Away): ")
MOST_SESSIONS = 1_000
"""Most sessions that the server may have ended since its start; each costs one request to skip."""
RETRIES, BACKOFF_MS = 6, 2_000
"""Retries of a request to a server that does not answer, and the longest wait between them: some 10 s in all, because
the caller must heartbeat."""
OLD = (1980, 1, 1, 0, 0, 0)
"""The timestamp of every file in an archive: the same code must give the same archive, or a session refuses it."""
SHIPPED = (sexton, config)
RUNTIME = ("spark.sql.",)
"""Prefixes of settings that a session may change; all others are set when a server starts."""


class SparkFailed(SextonError):
    """A job failed on Spark; the message is Spark's."""

    passes = True


class Sessions:
    """The sessions in which this process' jobs run. Call ``close()`` in a ``finally``."""

    def __init__(self, remote: str, conf: Mapping[str, str], home: Path, name: str = "sexton") -> None:
        """Prepare sessions. Where ``remote`` is local, a server of this process' own starts with the first one.

        ``home``: where the code for executors and a server's files are stored. ``name``: the deployment, whose workers
        share one session.
        Raises ``EmbeddedError`` where a server of this process' own would have no Java.
        """
        self._name, self._remote = name, remote
        self.local = is_local(remote)
        if self.local:
            find_java()
        self._conf = {k: v for k, v in conf.items() if k.startswith(RUNTIME)}
        self._new_server = partial(ConnectServer, home, remote, conf)
        self._server: ConnectServer | None = None
        self._url, scratch = remote, home / "spark"
        make_directory(scratch)
        self._code = archive(scratch)
        self._lock = threading.Lock()
        self._open: SparkSession | None = None
        self._users = 0

    @contextmanager
    def of(self, tag: str, keep_alive: Callable[[], None] = lambda: None) -> Iterator[SparkSession]:
        """Open the shared session, and interrupt jobs that were left running under the tag.

        All work of a deployment shares one: for each session Spark starts new Python processes, and never ends them.
        ``keep_alive`` is called while a server starts, which takes minutes on a busy machine.
        """
        with self._lock:
            self._start_server(keep_alive)
            session = self._open = self._open or self._join()
            self._users += 1
        try:
            session.interruptTag(tag)
            yield session
        except PySparkException as e:
            raise SparkFailed(f"Spark: {first_words(e)}") from e
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:  # the next user checks that the server still has the session
                    self._leave()

    @property
    def cores(self) -> int | None:
        """Tasks that run at the same time on a server of this process' own; None on a cluster, which may grow."""
        if not self.local:
            return None
        number = re.search(r"[0-9]+", self._remote)
        if number:
            return int(number[0])
        return 1 if self._remote == "local" else os.cpu_count()

    @property
    def server_pid(self) -> int | None:
        """The id of the process, and of its session, of a server of this process' own; None before its start."""
        return self._server.child.pid if self._server is not None else None

    def check(self) -> None:
        """Raise ``SparkFailed`` where a server of this process' own has ended: the worker needs it."""
        if self._server is not None and self._server.child.exit_code() is not None:
            raise SparkFailed(f"Spark's server has ended; see its log: {self._server.child.log}")

    def _start_server(self, keep_alive: Callable[[], None]) -> None:
        """Start a server of this process' own where there must be one; raise ``SparkFailed`` where that fails."""
        self.check()
        if self._server is not None or not self.local:
            return
        with ExitStack() as undo:
            try:
                server = self._new_server()
                undo.callback(server.stop)
                seconds = server.start(keep_alive)
            except EmbeddedError as e:
                raise SparkFailed(f"Spark's server did not start: {e}") from e
            undo.pop_all()
        log.info("Spark's server started in %.1f s on Java %d of %s", seconds, server.java.version, server.java.origin)
        self._server, self._url = server, server.url

    def close(self) -> None:
        """Leave the session, and stop a server of this process' own."""
        with self._lock:
            self._leave()
        if self._server is not None:
            self._server.stop()

    def _leave(self) -> None:
        if self._open is not None:
            self._open.release_session_on_close = False
            self._open.stop()
            self._open = None

    def _join(self) -> SparkSession:
        channel_options = [("grpc.enable_http_proxy", 0)] if self.local else []  # no proxy reaches loopback
        for number in range(MOST_SESSIONS):
            # The id depends on the code: a session cannot mix two versions of it.
            session_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{self._name}/{self._code.stem}/{number}")
            url = self._url.rstrip("/")
            separator = ";" if "/;" in url else "/;"
            channel = DefaultChannelBuilder(f"{url}{separator}session_id={session_id}", channel_options)
            session = SparkSession.builder.channelBuilder(channel).create()
            session.client.set_retry_policies(
                [DefaultPolicy(max_retries=RETRIES, max_backoff=BACKOFF_MS, max_server_retry_delay=BACKOFF_MS)]
            )
            try:
                session.interruptTag("unused")  # any request fails where the server has ended this session
                if not self.local:
                    session.addArtifacts(str(self._code), pyfile=True)
                for option, value in self._conf.items():
                    session.conf.set(option, value)
                return session
            except PySparkException as e:
                session.release_session_on_close = False
                session.stop()
                if "SESSION_CLOSED" not in str(e) or number == MOST_SESSIONS - 1:
                    raise SparkFailed(f"Spark: {first_words(e)}") from e
        raise AssertionError("unreachable")


def run(session: SparkSession, tag: str, work: Callable[[], T], heartbeat: Callable[[], None]) -> T:
    """Do the work in a thread, with tagged jobs, and call ``heartbeat`` meanwhile; when it raises, interrupt the jobs.

    Raises:
        SparkFailed: a job failed.
    """
    return beside(partial(tagged, session, {tag}, work), heartbeat, lambda job: interrupt(session, tag, [job]))


def tagged(session: SparkSession, tags: Collection[str], work: Callable[[], T]) -> T:
    """Do the work in this thread with tagged jobs; raise ``SparkFailed`` where one failed."""
    for tag in tags:
        session.addTag(tag)
    try:
        return work()
    except PySparkException as e:
        raise SparkFailed(f"Spark: {first_words(e)}") from e
    finally:
        for tag in tags:
            session.removeTag(tag)


def interrupt(session: SparkSession, tag: str, jobs: Collection[Future[Any]]) -> None:
    """Interrupt the jobs of a tag until all of these have ended; do nothing where all have succeeded.

    A job that failed in this process may still run on the server: its stream was cut, not its work.
    """
    while any(not job.done() or job.exception() is not None for job in jobs):
        try:
            session.interruptTag(tag)
        except GONE as e:
            log.warning("could not interrupt Spark's jobs of %s: %s", tag, first_words(e))
        if not wait(jobs, timeout=LOOK_SECONDS).not_done:
            return


def first_words(error: Exception) -> str:
    """Return the message of a job's error without stack traces: Python's last error, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1][:500]
    return (lines[0] if lines else type(error).__name__)[:500]


def archive(folder: Path) -> Path:
    """Write Sexton's packages into an archive for executors, named by its contents, and return its path."""
    root = Path(sexton.__file__).parents[1]
    unfinished, digest = folder / f"{uuid.uuid4().hex}.zip", hashlib.sha256()
    with open_file(unfinished, "wb") as file, zipfile.ZipFile(file, "w") as packed:
        # A set, as an installed wheel has config/ below sexton/.
        for source in sorted({s for package in SHIPPED for s in Path(package.__path__[0]).rglob("*.py")}):
            name, text = source.relative_to(root).as_posix(), source.read_bytes()
            digest.update(f"{name} {len(text)} ".encode() + text)
            packed.writestr(zipfile.ZipInfo(name, OLD), text)
    return unfinished.replace(folder / f"sexton-{digest.hexdigest()[:16]}.zip")
