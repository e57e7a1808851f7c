"""Let the process under test die at a named crash point, or something else happen there."""

from collections.abc import Callable


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
