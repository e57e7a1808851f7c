"""Where benchmarks put what they make: a directory on disk and one in memory, both removed at the end."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

MEMORY = Path("/dev/shm")
ROOM = 4 << 30


class Scratch(NamedTuple):
    """``disk``: databases, whose commits must reach a disk. ``memory``: stores, which are not what is measured."""

    disk: Path
    memory: Path


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Make both; where there is no room in memory, both are on disk."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    with (
        tempfile.TemporaryDirectory(prefix="sexton-bench-") as disk,
        tempfile.TemporaryDirectory(prefix="sexton-bench-", dir=MEMORY if roomy else None) as memory,
    ):
        yield Scratch(Path(disk), Path(memory))


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that servers are stopped and directories removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
