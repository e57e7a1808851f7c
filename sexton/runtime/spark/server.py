"""A Spark Connect server of this process' own, for ``spark.remote = local[N]``: a child that never outlives us."""

import os
import re
import secrets
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sexton.kernel.errors import SextonError
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open

READY_SECONDS = 90.0
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",  # it is the only work there: throughput counts, not pauses
    # What was cancelled goes on in Python until this; no lock is given back before.
    "spark.python.task.killTimeout": "200ms",
    "spark.connect.session.manager.defaultSessionTimeout": "8760h",  # there is one, and it ends with the server
    "spark.log.level": "WARN",
}
"""Beside what ``[spark] conf`` says, which wins."""


class NoSpark(SextonError):
    """Spark cannot run here: a package or a JDK is missing, or its server does not start."""


def missing() -> str:
    """Return why Spark cannot run here; empty where it can."""
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        return "pyspark is not installed: pip install 'sexton[spark]'"
    if java() is None:
        return "there is no Java: install a full JDK 17 or newer (Debian: default-jdk-headless), or set JAVA_HOME"
    return ""


def java() -> str | None:
    """Return the program that runs Java."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None)


class ConnectServer:
    """One server; ``stop()`` in a ``finally``."""

    def __init__(self, home: Path, master: str, conf: Mapping[str, str]) -> None:
        """``master``: of the application, as Spark names it. ``conf``: Spark's own settings, static ones too."""
        self._token, self._port = secrets.token_urlsafe(24), free_port()
        scratch = home / "spark"
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        every = CONF | {"spark.local.dir": str(scratch)} | dict(conf)
        every["spark.connect.grpc.binding.port"] = str(self._port)
        given = [part for name, value in every.items() for part in ("--conf", f"{name}={value}")]
        command = ["bash", str(spark_home() / "bin/spark-submit"), "--class", CLASS, "--master", master, *given]
        self.child = Child("spark", [*command, "spark-internal"], home, environment() | {TOKEN: self._token})

    @property
    def url(self) -> str:
        """Where it answers, with the token that it asks for."""
        return f"sc://localhost:{self._port}/;token={self._token}"

    def start(self) -> float:
        """Start it and return the seconds it took; raises ``EmbeddedError`` with the last lines of its log."""
        return self.child.start(lambda: is_open(self._port), READY_SECONDS)

    def stop(self) -> None:
        """Stop it with all it started."""
        self.child.stop(grace=5.0)


def spark_home() -> Path:
    """Return the folder of Spark's own programs; ``NoSpark`` where there is none."""
    if why := missing():
        raise NoSpark(why)
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(os.environ.get("SPARK_HOME") or Path(found.origin).parent)


def environment() -> dict[str, str]:
    """Return what Spark's programs need in their environment, ours included: executors have their credentials there."""
    mine = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
    return {k: v for k, v in os.environ.items() if k != "SPARK_REMOTE"} | mine


def is_local(remote: str) -> bool:
    """Tell whether ``spark.remote`` asks for a server of our own."""
    return re.fullmatch(r"local(\[([0-9]+|\*)\])?", remote) is not None
