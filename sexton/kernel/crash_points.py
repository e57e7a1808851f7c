"""Named points where a test may pause, crash or inspect: between a lock, its checks and its write, and after commits.

Nothing is installed in production; ``reached`` is then one comparison.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

OF_ROUNDS = frozenset(
    {
        "lease.acquired",
        "round.opened",
        "owner.fenced",
        "resolve.stored",
        "claim.asked",
        "claim.guarded",
        "claim.checked",
        "claim.written",
        "claim.committed",
        "files.deleted",
        "outcomes.recorded",
        "audit.written",
        "owner.forgot",
        "marks.removed",
        "round.closed",
        "undrop.deleted",
        "commit.deleted",
        "hold.guarded",
        "hold.written",
    }
)
"""Points in rounds and in owners."""
OF_REGISTERING = frozenset({"protection.added", "protection.parted", "protection.sealed"})
OF_WAL = frozenset({"wal.floor", "wal.deleted", "wal.seen"})
OF_BINLOGS = frozenset(
    {
        "consumer.guarded",
        "binlog.guarded",
        "binlog.written",
        "binlog.committed",
        "binlog.spread",
        "binlog.granted",
        "binlog.removed",
        "report.guarded",
        "report.written",
    }
)
OF_BACKEND = frozenset({"backend.files.deleted", "backend.keys.removed", "backend.acknowledged"})
NAMES = OF_ROUNDS | OF_REGISTERING | OF_WAL | OF_BINLOGS | OF_BACKEND

_hook: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """Call the installed hook, if any: the code has reached this point."""
    if _hook is not None:
        if name not in NAMES:
            raise KeyError(f"{name} is not in crash_points.NAMES")
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
