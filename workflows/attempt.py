"""How one attempt of a round, under one lease, ended, and what that means for the round. Pure."""

from enum import Enum, auto
from typing import NamedTuple

from temporalio.exceptions import ActivityError, ApplicationError

from sexton.recycle.model import FAILED, STOPPED, SUCCEEDED
from workflows import ids
from workflows.controls import Again
from workflows.options import MAX_TRIES, backoff
from workflows.words import error_message


class Ending(Enum):
    """Why an attempt is over; each has its own consequence for the round."""

    FINISHED = auto()
    """Everything the plan allows is done."""
    FAILED = auto()
    """Some kinds failed: the round backs off and tries them again."""
    NOT_ENABLED = auto()
    """The instance only observes, so nothing more may be deleted: the round fails."""
    HALTED = auto()
    """A stop, a list or a window forbids rounds: the round ends as stopped."""
    LEASE_LOST = auto()
    """Another epoch has the lease: the round acquires a new one."""
    HISTORY_FULL = auto()
    """The history is long: the workflow continues as new."""


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
    """The state that a round ends in, and its error; empty where it succeeded."""

    state: str
    error: str = ""


_ENDINGS = {ids.LEASE_LOST: Ending.LEASE_LOST, ids.HALTED: Ending.HALTED, ids.NOT_ENABLED: Ending.NOT_ENABLED}


def failed_attempt(error: ActivityError) -> AttemptResult:
    """Return the result of an attempt that this error of an activity ended."""
    return AttemptResult(_ENDINGS.get(error_type(error), Ending.FAILED), error_message(error))


def error_type(error: ActivityError) -> str:
    """Return the type of the application error inside an activity's error; empty where there is none."""
    return error.cause.type or "" if isinstance(error.cause, ApplicationError) else ""


def conclude(result: AttemptResult, tries: int) -> Conclusion | Again:
    """Return how the round ends after this attempt, or ``Again`` where it backs off and tries once more.

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
    return Again(backoff(tries))
