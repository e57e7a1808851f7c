"""Status, blockers, explanations, stops, and the health of the API."""

from typing import Literal

from sexton.insight.views import Blocker, Overview, Story
from sexton.kernel.message import Message
from sexton.protocol.body import Body, Reason

__all__ = ["BlockerRows", "HealthBody", "Overview", "Stop", "StopResult", "StoriesBody"]


class Stop(Body):
    """Why an operator stops deletion."""

    reason: Reason


class StopResult(Message):
    """The state after a stop or a start."""

    instance: str
    stopped: bool
    still: str = ""
    """What else blocks deletion in the instance; empty: nothing."""


class BlockerRows(Message):
    """What blocks deletions now. ``temporal_away``: what only Temporal knows is missing, because it did not answer."""

    blockers: tuple[Blocker, ...]
    temporal_away: bool = False


class StoriesBody(Message):
    """What is known of a key or an id; empty: nothing."""

    stories: tuple[Story, ...]


class HealthBody(Message):
    """Whether the process is ready; ``failed``: the names of the checks that failed."""

    status: Literal["ok", "unavailable"]
    failed: tuple[str, ...] = ()
