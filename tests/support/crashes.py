"""List the crash points that the code names; let the process under test die, or something else happen, at one."""

from collections.abc import Callable

OF_FENCES = frozenset({"keepers.asked", "fence.written", "commits.read", "owner.fenced"})
"""Points of rounds with marks that their owner must fence."""
OF_ROUNDS = OF_FENCES | frozenset(
    {
        "lease.acquired",
        "round.opened",
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
OF_COMMITS = frozenset({"commit.stored", "commit.admitted"})
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
NAMES = OF_ROUNDS | OF_REGISTERING | OF_COMMITS | OF_WAL | OF_BINLOGS | OF_BACKEND


class Crash(BaseException):
    """The process ends here; no handler of ``Exception`` sees it."""


def crash_at(point: str, times: int = 1) -> Callable[[str], None]:
    """Return a hook for ``crash_points.installed`` that raises ``Crash`` when a point is reached for the n-th time."""
    remaining = times

    def hook(name: str) -> None:
        nonlocal remaining
        remaining -= name == point
        if name == point and not remaining:
            raise Crash(point)

    return hook


def at_point(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook for ``crash_points.installed`` that does something each time a point is reached."""

    def hook(name: str) -> None:
        if name == point:
            act()

    return hook
