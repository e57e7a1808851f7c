"""Spark for tests: a Connect server for a whole run of pytest, because it takes seconds to start; and a cluster."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sexton.runtime.spark.server import SPARK_HOME, ConnectServer, find_java
from sexton.runtime.spark.session import Sessions

QUICK = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
    # Java's second compiler costs a third of the CPU of short jobs.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # Code generation for each small query costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def sessions(home: Path) -> Iterator[Sessions]:
    """Start a Connect server that runs two tasks at a time."""
    running = Sessions("local[2]", QUICK, home)
    try:
        yield running
    finally:
        running.close()


class Cluster:
    """A cluster of two executors of one core each, and a Connect server, which has their master in its own process.

    Its Python has every package except Sexton, whose code must come with the session.
    """

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        """``env``: environment variables of the executors, such as credentials."""
        # -S: no .pth file is read, so that an editable install of Sexton is not visible.
        python = f'PYTHONPATH="{SPARK_HOME.parent}:$PYTHONPATH" exec "{sys.executable}" -S "$@"'
        own = {
            "PYTHONPATH": "",
            "PYSPARK_PYTHON": _script(home / "python", python),
            "JAVA_HOME": _java_of_executors(home / "java"),
            "SPARK_SCALA_VERSION": "2.13",  # bin/load-spark-env.sh sets it for the command of executors
        }
        conf = QUICK | {"spark.executor.memory": "512m"}
        self._server = ConnectServer(home, "local-cluster[2,1,512]", conf, dict(env) | own)

    @property
    def remote(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
        shutil.rmtree(SPARK_HOME / "work", ignore_errors=True)  # the logs of executors


def _java_of_executors(home: Path) -> str:
    """Write a Java that leaves out the module that Spark adds, and that the wheel's Java lacks; return its home."""
    module = "--add-modules=jdk.incubator.vector"
    keep = f'for word; do shift; [ "$word" = {module} ] || set -- "$@" "$word"; done'
    _script(home / "bin/java", f'{keep}\nexec "{find_java().program}" "$@"')
    return str(home)


def _script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)
