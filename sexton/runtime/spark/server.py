"""Run a Spark Connect server for ``spark.remote = local[N]``: a child that never outlives this process."""

import os
import re
import secrets
import shutil
import struct
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sexton.kernel.errors import SextonError
from sexton.kernel.private import make_directory
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open, write_atomically

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
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",  # throughput matters here, pauses do not
    # A cancelled task continues in Python for this time, and no lease is released before it ends.
    "spark.python.task.killTimeout": "200ms",
    "spark.connect.session.manager.defaultSessionTimeout": "8760h",  # there is one session, which ends with the server
    "spark.log.level": "WARN",
}
"""Defaults; the settings in ``[spark] conf`` take precedence."""
_SPECIAL = frozenset(" =:#!\\")


class NoSpark(SextonError):
    """Spark cannot run here: a package or a JDK is missing, or its server does not start."""


def missing() -> str:
    """Return why Spark cannot run here; empty where it can."""
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        return "pyspark is not installed: pip install 'sexton[spark]'"
    if java() is None:
        return "Java is missing: install a full JDK 17 or newer (Debian: default-jdk-headless), or set JAVA_HOME"
    return ""


def java() -> str | None:
    """Return the path of the program ``java``; None without one."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None)


class ConnectServer:
    """One server. Call ``stop()`` in a ``finally``."""

    def __init__(self, home: Path, master: str, conf: Mapping[str, str]) -> None:
        """``master``: Spark's URL of the application. ``conf``: Spark's own settings, static ones included."""
        self._token, self._port = secrets.token_urlsafe(24), free_port()
        scratch = home / "spark"
        make_directory(scratch)
        options = CONF | {"spark.local.dir": str(scratch)} | dict(conf)
        options["spark.connect.grpc.binding.port"] = str(self._port)
        # Other users can read a command line, and an option may be a secret.
        self._options = scratch / f"server-{self._port}.conf"
        write_atomically(self._options, properties(options))
        command = ["bash", str(spark_home() / "bin/spark-submit"), "--class", CLASS, "--master", master]
        command += ["--properties-file", str(self._options), "--load-spark-defaults"]
        self.child = Child("spark", [*command, "spark-internal"], home, environment() | {TOKEN: self._token})

    @property
    def url(self) -> str:
        """The server's URL, with the token that it requires."""
        return f"sc://localhost:{self._port}/;token={self._token}"

    def start(self) -> float:
        """Start the server and return the seconds it took; raise ``EmbeddedError`` with the last lines of its log."""
        return self.child.start(lambda: is_open(self._port), READY_SECONDS)

    def stop(self) -> None:
        """Stop the server and all processes it started."""
        self.child.stop(grace=5.0)
        self._options.unlink(missing_ok=True)


def properties(options: Mapping[str, str]) -> str:
    """Return options as a file of Java's properties: what separates keys, values and lines there is escaped."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in options.items())


def _escaped(text: str) -> str:
    return "".join(
        f"\\u{unit:04x}" if chr(unit) in _SPECIAL or not 0x20 <= unit < 0x7F else chr(unit)
        for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "replace"))
    )


def spark_home() -> Path:
    """Return the folder of Spark's own programs; raise ``NoSpark`` where Spark cannot run."""
    reason = missing()
    if reason:
        raise NoSpark(reason)
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.origin).parent)


def environment() -> dict[str, str]:
    """Return the environment of Spark's programs. It includes this one, where executors find their credentials."""
    spark_variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
    return {k: v for k, v in os.environ.items() if k != "SPARK_REMOTE"} | spark_variables


def is_local(remote: str) -> bool:
    """Return whether ``spark.remote`` requires a server of this process' own."""
    return re.fullmatch(r"local(\[([0-9]+|\*)\])?", remote) is not None
