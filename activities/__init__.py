"""Activities: what workflows ask to be done. Ports are injected; ``build`` names all that a control worker serves."""

from collections.abc import Callable, Sequence
from typing import Any

from activities.recycle import RecycleActivities

__all__ = ["RecycleActivities", "build"]


def build(recycle: RecycleActivities) -> Sequence[Callable[..., Any]]:
    """Return the activities to register."""
    return [
        recycle.open_round,
        recycle.make_plan,
        recycle.find_plan,
        recycle.adopt_claimed,
        recycle.recycle_range,
        recycle.close_round,
    ]
