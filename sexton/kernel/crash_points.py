"""Named points where a test may pause, crash or inspect: between a lock, its checks and its write, and after commits.

Nothing is installed in production; ``reached`` is then one comparison.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_hook: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """Call the installed hook, if any: the code has reached this point."""
    if _hook is not None:
        _hook(name)


@contextmanager
def installed(hook: Callable[[str], None]) -> Iterator[None]:
    """Call ``hook(name)`` at each point, in the thread that reaches it, until the block ends."""
    global _hook
    _hook = hook
    try:
        yield
    finally:
        _hook = None
