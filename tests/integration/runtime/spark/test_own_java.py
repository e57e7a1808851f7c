"""Spark starts on the wheel's Java where the machine has none, and no variable of the user's breaks it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sexton.runtime.spark.session import Sessions
from tests.servers import spark
from tests.unit.runtime.spark.test_server import FOREIGN

PROXY = "http://127.0.0.1:9"
JAVA_VERSION = "select java_method('java.lang.System', 'getProperty', 'java.specification.version') as version"


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every program of the machine in the PATH, except Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.get_exec_path():
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def _places(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"python": [sys.executable], "scratch": [tempfile.gettempdir()]})


def _works(sessions: Sessions) -> tuple[str, Any]:
    """Let Java and Python compute; return Java's version, and where Python's workers run."""
    with sessions.of("own-java") as session:
        assert session.sql("select sum(id) as total from range(1000)").collect()[0].total == 499_500
        [places] = session.range(0, 1, 1, 1).mapInArrow(_places, "python string, scratch string").collect()
        return session.sql(JAVA_VERSION).collect()[0].version, places


@pytest.mark.timeout(600)
def test_spark_needs_no_java_of_the_machine(no_java: None, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with spark.sessions(home) as sessions:
        version, places = _works(sessions)
        assert (version, places.python) == ("25", sys.executable)
        assert Path(places.scratch).parent == home / "spark"

    assert [path.name for path in (home / "spark").iterdir() if path.suffix != ".zip"] == []


@pytest.mark.slow  # one more start of Java
@pytest.mark.timeout(600)
def test_variables_of_another_spark_break_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = {"http_proxy": PROXY, "grpc_proxy": PROXY, "NO_PROXY": "", "no_proxy": ""}
    for name, value in (FOREIGN | proxies | {"CLASSPATH": "/nowhere"}).items():
        monkeypatch.setenv(name, value)
    with spark.sessions(tmp_path) as sessions:
        assert _works(sessions)[1].python == sys.executable
