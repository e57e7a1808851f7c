"""What concerns this process alone: files that only its user reads, rare searches for cycles, background work."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.25
CHILD_UMASK = 0o077
"""The umask of programs that Sexton starts: their files are readable by their owner only."""


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, each with mode 0700; leave existing ones alone."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def open_file(file: Path, mode: str) -> IO[Any]:
    """Open a file as ``open`` does; a new one gets mode 0600."""
    return open(file, mode, opener=lambda path, flags: os.open(path, flags, 0o600))


NEW_OBJECTS = 50_000
"""New containers after which Python searches the youngest ones for cycles; its default is 700."""


@cache  # once in each process
def search_cycles_rarely() -> None:
    """Let Python search for unreachable cycles less often, from the first call on; everything should be imported then.

    A step makes thousands of tuples and rows, which end by themselves. With the defaults a quarter of the CPU time of a
    round was spent on searching them, and all that was imported, for cycles (`python -m benchmarks keys`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def beside(work: Callable[[], T], heartbeat: Callable[[], None], interrupt: Callable[[Future[T]], object]) -> T:
    """Do the work in a thread, and call ``heartbeat`` meanwhile.

    When ``heartbeat`` raises, call ``interrupt`` until the work has ended: once may be before it has begun.
    """
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(work)
        try:
            while not job.done():
                heartbeat()
                wait([job], LOOK_SECONDS)
        except BaseException:
            interrupt(job)
            while not wait([job], LOOK_SECONDS).done:
                interrupt(job)
            raise
        return job.result()


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine until the context ends, then cancel it and wait for its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
