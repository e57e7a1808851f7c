"""Spark sessions, one for each piece of work, by the name of its workflow run: a successor finds what was left running.

Jobs carry a tag. What is cancelled is interrupted until it is gone, and a worker that takes over first interrupts what
its predecessor left on a server that outlived it.
"""

import logging
import threading
import uuid
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

import sexton
from sexton.errors import SextonError
from sexton.spark.server import ConnectServer, is_local

T = TypeVar("T")
log = logging.getLogger(__name__)
LOOK_SECONDS = 0.25
SHIPPED = ("sexton", "config")
RUNTIME = ("spark.sql.",)
"""Settings that a session may change; the others belong to a server's start."""


class SparkFailed(SextonError):
    """A job failed on Spark, in its own words."""

    passes = True


class Sessions:
    """Where this process' jobs run. ``close()`` in a ``finally``."""

    def __init__(self, remote: str, conf: Mapping[str, str], home: Path) -> None:
        """Start a server where ``remote`` is local; raises ``NoSpark`` or ``EmbeddedError``."""
        self.local = is_local(remote)
        self._conf = {k: v for k, v in conf.items() if k.startswith(RUNTIME)}
        self._server: ConnectServer | None = None
        self._url, self._home = remote, home / "spark"
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.local:
            self._server = ConnectServer(home, remote, conf)
            self._server.start()
            self._url = self._server.url
        self._lock = threading.Lock()
        self._open: dict[str, SparkSession] = {}

    def of(self, name: str) -> SparkSession:
        """Return the session of a piece of work; what another process left running in it is interrupted."""
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"sexton/{name}"))
        with self._lock:
            if key not in self._open:
                parts = self._url.rstrip("/")
                joined = f"{parts};session_id={key}" if "/;" in parts else f"{parts}/;session_id={key}"
                session = SparkSession.builder.remote(joined).create()
                for option, value in self._conf.items():
                    session.conf.set(option, value)
                if not self.local:
                    session.interruptAll()
                    session.addArtifacts(str(archive(self._home)), pyfile=True)
                self._open[key] = session
            return self._open[key]

    def done(self, name: str) -> None:
        """End the session of a piece of work."""
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"sexton/{name}"))
        with self._lock:
            session = self._open.pop(key, None)
        if session is not None:
            try:
                session.stop()
            except (PySparkException, grpc.RpcError) as e:  # the server ends it by itself, after its time
                log.info("a session did not end: %s", first_words(e))

    def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.stop()


def run(session: SparkSession, tag: str, work: Callable[[], T], beat: Callable[[], None]) -> T:
    """Do the work in a thread of its own, its jobs tagged; beat meanwhile.

    When ``beat`` raises, the jobs are interrupted until the work has ended: interrupting once may come before the job
    was submitted.

    Raises:
        SparkFailed: a job failed.
    """

    def tagged() -> T:
        session.addTag(tag)
        try:
            return work()
        finally:
            session.removeTag(tag)

    with ThreadPoolExecutor(1, thread_name_prefix="spark") as thread:
        job = thread.submit(tagged)
        try:
            while not job.done():
                beat()
                with suppress(TimeoutError):
                    job.exception(LOOK_SECONDS)
        except BaseException:
            while not job.done():
                with suppress(PySparkException):
                    session.interruptTag(tag)
                with suppress(TimeoutError):
                    job.exception(LOOK_SECONDS)
            raise
        try:
            return job.result()
        except PySparkException as e:
            raise SparkFailed(f"Spark: {first_words(e)}") from e


def first_words(error: Exception) -> str:
    """Return what a job's error says, without the traces of three languages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("sexton.") and ": " in line]
    return (ours[-1].partition(": ")[2] if ours else lines[0] if lines else type(error).__name__)[:500]


def archive(folder: Path) -> Path:
    """Write our own packages as one archive, for executors that have them not, and return it."""
    root, file = Path(sexton.__file__).parents[1], folder / "sexton.zip"
    fresh = file.with_name(f"{uuid.uuid4().hex}.zip")
    with zipfile.ZipFile(fresh, "w") as packed:
        for package in SHIPPED:
            for source in sorted((root / package).rglob("*.py")):
                packed.write(source, source.relative_to(root))
    fresh.replace(file)
    return file
