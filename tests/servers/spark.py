"""Spark for tests: a Connect server for a whole run of pytest, because it takes seconds to start; and a cluster."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open
from sexton.runtime.spark.server import CLASS, environment, spark_home
from sexton.runtime.spark.session import Sessions

QUICK = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
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
        self.port = free_port()
        python = home / "python"
        home.mkdir(parents=True, exist_ok=True)
        site = Path(find_spec("pyspark").origin).parents[1]  # type: ignore[union-attr,arg-type]
        # -S: no .pth file is read, so that an editable install of Sexton is not visible.
        script = f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n'
        python.write_text(script)
        python.chmod(0o755)
        base = environment() | dict(env) | {"PYSPARK_PYTHON": str(python), "SPARK_WORKER_DIR": str(home / "work")}
        base.pop("PYTHONPATH", None)
        conf = QUICK | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.python.task.killTimeout": "200ms",
        }
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        submit = ["bash", str(spark_home() / "bin/spark-submit"), "--class", CLASS]
        master = ["--master", "local-cluster[2,1,512]"]
        self.connect = Child("connect", [*submit, *master, *options, "spark-internal"], home, base)

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.connect.start(lambda: is_open(self.port), 90)

    def stop(self) -> None:
        self.connect.stop(grace=3.0)
