"""The command and the environment of Spark's server are Sexton's own, whatever the variables of another Spark are."""

import re
import sys
import zipfile
from pathlib import Path

import pytest

from sexton.runtime.spark.server import JAVA_OPTIONS, SPARK_HOME, ConnectServer, environment

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
