"""Decide what the end of one attempt of a round, under one lease, means for the round. Pure."""

from enum import Enum, auto
from typing import NamedTuple

from temporalio.exceptions import ActivityError

from sexton.recycle.model import FAILED, STOPPED, SUCCEEDED
from workflows import ids
from workflows.details import error_message, error_type
from workflows.options import MAX_TRIES, backoff
from workflows.signals import RetryAfter


class Ending(Enum):
    """How an attempt ended. Each ending has its own consequence for the round."""

    FINISHED = auto()
    """Everything the plan allows is done."""
    FAILED = auto()
    """Some kinds failed: the round backs off and tries them again."""
    NOT_ENABLED = auto()
    """The instance is in observe mode, so nothing may be deleted: the round fails."""
    HALTED = auto()
    """A stop, a list or a window forbids rounds: the round ends as stopped."""
    LEASE_LOST = auto()
    """Another epoch has the lease: the round acquires a new one."""
    HISTORY_FULL = auto()
    """The workflow's history is long: the workflow continues as new."""


class AttemptResult(NamedTuple):
    """The ending of an attempt, and the error to show; empty for ``FINISHED`` and ``HISTORY_FULL``."""

    ending: Ending
    error: str = ""

    @property
    def stops_every_kind(self) -> bool:
        """Whether no other kind can continue under this lease either."""
        return self.ending in (Ending.NOT_ENABLED, Ending.HALTED, Ending.LEASE_LOST)

    @property
    def failed(self) -> bool:
        """Whether the attempt counts as a failed try of the round."""
        return self.ending in (Ending.FAILED, Ending.NOT_ENABLED, Ending.LEASE_LOST)


class Conclusion(NamedTuple):
    """The state in which a round ends, and its error; empty if it succeeded."""

    state: str
    error: str = ""


_ENDINGS = {ids.LEASE_LOST: Ending.LEASE_LOST, ids.HALTED: Ending.HALTED, ids.NOT_ENABLED: Ending.NOT_ENABLED}


def failed_attempt(error: ActivityError) -> AttemptResult:
    """Return the result of an attempt that an activity's error ended."""
    return AttemptResult(_ENDINGS.get(error_type(error), Ending.FAILED), error_message(error))


def conclude(result: AttemptResult, tries: int) -> Conclusion | RetryAfter:
    """Return how the round ends after this attempt, or ``RetryAfter`` if it backs off and tries again.

    Args:
        result: of the last attempt; not ``HISTORY_FULL``, nor a lost lease that the round may replace.
        tries: failed attempts so far, this one included.
    """
    if result.ending is Ending.HALTED:
        return Conclusion(STOPPED, result.error)
    if result.ending is Ending.FINISHED:
        return Conclusion(SUCCEEDED)
    if result.ending is not Ending.FAILED or tries >= MAX_TRIES:
        return Conclusion(FAILED, result.error)
    return RetryAfter(backoff(tries))
