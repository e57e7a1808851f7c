"""Hold the code under test at a place until the test has done something meanwhile; no pause has to be long enough."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sexton.kernel.crash_points import installed
from tests.support.eventually import PATIENCE_SECONDS


class Door:
    """Whoever comes waits until it is opened. ``reached``: somebody has come."""

    def __init__(self) -> None:
        self.reached, self._opened = threading.Event(), threading.Event()

    def come(self) -> None:
        """Wait until the door is open."""
        self.reached.set()
        assert self._opened.wait(PATIENCE_SECONDS), "nobody opened the door"

    def is_open(self) -> bool:
        """Return whether everybody passes."""
        return self._opened.is_set()

    def open(self) -> None:
        """Let everybody pass, from now on."""
        self._opened.set()


@contextmanager
def door_at(point: str, visit: int = 1, *, once: bool = False) -> Iterator[Door]:
    """Put a door at a crash point, closed from its n-th visit on; the end of the block opens it.

    ``once``: visits after the first that waits pass.
    """
    door, visits = Door(), iter(range(1, visit))

    def come(name: str) -> None:
        if name == point and next(visits, None) is None and not (once and door.reached.is_set()):
            door.come()

    with installed(come):
        try:
            yield door
        finally:
            door.open()


@contextmanager
def held_call(target: object, name: str) -> Iterator[Door]:
    """Put a door before the next call of a method; later calls pass. The end of the block opens it."""
    door, real = Door(), getattr(target, name)

    def call(*arguments: Any, **options: Any) -> Any:
        if not door.reached.is_set():
            door.come()
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, call)
        try:
            yield door
        finally:
            door.open()
