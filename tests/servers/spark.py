"""A Spark Connect server for tests: one for a whole run of pytest, because it takes seconds to start."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sexton.spark.session import Sessions

QUICK = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
    # What is compiled anew for each small query costs more than it brings.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def sessions(home: Path) -> Iterator[Sessions]:
    """Start one that takes two tasks at a time."""
    running = Sessions("local[2]", QUICK, home)
    try:
        yield running
    finally:
        running.close()
