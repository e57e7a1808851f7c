"""The Spark session of a deployment: who takes work over finds in it what was left running.

Jobs carry tags. What is cancelled is interrupted until it is gone, and who takes work over first interrupts what its
predecessor left on a server that outlived it.
"""

import hashlib
import logging
import os
import re
import threading
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from grpc import RpcError
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

import sexton
from sexton.kernel.errors import SextonError
from sexton.runtime.spark.server import ConnectServer, is_local

log = logging.getLogger(__name__)
T = TypeVar("T")
GONE = (PySparkException, RpcError, ValueError)
"""What a client says whose server, or channel, is gone."""
_RAISED = re.compile(r"(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(Error|Exception|Fault|Silent|Input|Busy|Away): ")
LOOK_SECONDS = 0.25
LIVES = 1_000
"""Times the session may have been ended by a server since that started; each costs a request."""
RETRIES, BACKOFF_MS = 6, 2_000
"""How often a server that does not answer is asked again, and after how long at most: some 10 s in all, as whoever asks
has a heart to beat."""
OLD = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive: the same code is the same archive, or a session refuses it."""
SHIPPED = ("sexton", "config")
RUNTIME = ("spark.sql.",)
"""Settings that a session may change; the others belong to a server's start."""


class SparkFailed(SextonError):
    """A job failed on Spark, in its own words."""

    passes = True


class Sessions:
    """Where this process' jobs run. ``close()`` in a ``finally``."""

    def __init__(self, remote: str, conf: Mapping[str, str], home: Path, name: str = "sexton") -> None:
        """Start a server where ``remote`` is local; raises ``NoSpark`` or ``EmbeddedError``.

        ``name``: the deployment's; all its workers have one session.
        """
        self._name, self._remote = name, remote
        self.local = is_local(remote)
        self._conf = {k: v for k, v in conf.items() if k.startswith(RUNTIME)}
        self._server: ConnectServer | None = None
        self._url, self._home = remote, home / "spark"
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._code = archive(self._home)
        if self.local:
            self._server = ConnectServer(home, remote, conf)
            self._server.start()
            self._url = self._server.url
        self._lock = threading.Lock()
        self._open: SparkSession | None = None
        self._users = 0

    @contextmanager
    def of(self, tag: str) -> Iterator[SparkSession]:
        """Give the session, which others use too; what was left running under the tag is interrupted.

        There is one for all work of a deployment: for each session Spark starts Python anew, and never ends it.
        """
        self.check()
        with self._lock:
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
                if not self._users:  # the next one asks anew whether its server still has it
                    self._leave()

    @property
    def cores(self) -> int | None:
        """Tasks that run at a time on a server of our own; None: on a cluster, which may grow."""
        if not self.local:
            return None
        told = re.search(r"[0-9]+", self._remote)
        return int(told[0]) if told else 1 if self._remote == "local" else os.cpu_count()

    @property
    def server_pid(self) -> int | None:
        """The process, and the session of processes, of a server of our own."""
        return self._server.child.pid if self._server is not None else None

    def check(self) -> None:
        """Raise ``SparkFailed`` where a server of our own has ended: nothing can be done here any more."""
        if self._server is not None and self._server.child.exit_code() is not None:
            raise SparkFailed(f"Spark's server has ended; its last words are in {self._server.child.log}")

    def close(self) -> None:
        """End everything."""
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
        for again in range(LIVES):
            # Other code of ours would not mix with what a session was sent.
            key = uuid.uuid5(uuid.NAMESPACE_URL, f"{self._name}/{self._code.stem}/{again}")
            parts = self._url.rstrip("/")
            session = SparkSession.builder.remote(f"{parts}{';' if '/;' in parts else '/;'}session_id={key}").create()
            session.client.set_retry_policies(
                [DefaultPolicy(max_retries=RETRIES, max_backoff=BACKOFF_MS, max_server_retry_delay=BACKOFF_MS)]
            )
            try:
                session.interruptTag("nobody's")  # a request, which says whether the session can be had
                if not self.local:
                    session.addArtifacts(str(self._code), pyfile=True)
                for option, value in self._conf.items():
                    session.conf.set(option, value)
                return session
            except PySparkException as e:
                session.release_session_on_close = False
                session.stop()
                if "SESSION_CLOSED" not in str(e) or again == LIVES - 1:
                    raise SparkFailed(f"Spark: {first_words(e)}") from e
        raise AssertionError("unreachable")


def run(session: SparkSession, tag: str, work: Callable[[], T], heartbeat: Callable[[], None]) -> T:
    """Do the work in a thread of its own with tagged jobs, and call ``heartbeat`` meanwhile.

    When ``heartbeat`` raises, the jobs are interrupted until the work has ended: a single interrupt may come before the
    job was submitted.

    Raises:
        SparkFailed: a job failed.
    """

    with ThreadPoolExecutor(1, thread_name_prefix="spark") as thread:
        job = thread.submit(tagged, session, {tag}, work)
        try:
            while not job.done():
                heartbeat()
                with suppress(TimeoutError):
                    job.exception(LOOK_SECONDS)
        except BaseException:
            interrupt(session, tag, [job])
            raise
        return job.result()


def tagged(session: SparkSession, tags: Collection[str], work: Callable[[], T]) -> T:
    """Do the work in this thread, its jobs tagged; raises ``SparkFailed`` where one failed."""
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
    """Interrupt the jobs of a tag until all of these have ended; what ended well needs none.

    One that failed here may go on at the server: its stream was cut, not its work.
    """
    while any(not job.done() or job.exception() is not None for job in jobs):
        try:
            session.interruptTag(tag)
        except GONE as e:
            log.warning("Spark could not be told to stop %s: %s", tag, first_words(e))
        if not wait(jobs, timeout=LOOK_SECONDS).not_done:
            return


def first_words(error: Exception) -> str:
    """Return what a job's error says, without the traces of three languages: of a Python one its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if _RAISED.match(line)]
    return (ours[-1] if ours else lines[0] if lines else type(error).__name__)[:500]


def archive(folder: Path) -> Path:
    """Write our own packages as one archive, named by what is in it, and return it: for executors that lack them."""
    root, fresh, digest = Path(sexton.__file__).parents[1], folder / f"{uuid.uuid4().hex}.zip", hashlib.sha256()
    with zipfile.ZipFile(fresh, "w") as packed:
        for package in SHIPPED:
            for source in sorted((root / package).rglob("*.py")):
                name, text = source.relative_to(root).as_posix(), source.read_bytes()
                digest.update(f"{name} {len(text)} ".encode() + text)
                packed.writestr(zipfile.ZipInfo(name, OLD), text)
    return fresh.replace(folder / f"sexton-{digest.hexdigest()[:16]}.zip")
