"""The errors of a client; those of protections and replays have classes of ``sexton.protection`` or ``sexton.wal``."""

from collections.abc import Callable

from sexton.kernel.errors import SextonError, code_of
from sexton.operations.fields import ProblemDocument
from sexton.protection import errors as protection
from sexton.wal import port as wal

_TYPED: dict[tuple[str, bool], Callable[[str], SextonError]] = {
    (code_of(kind("")), issubclass(kind, protection.ProtectionError)): kind
    for kind in (
        *(protection.GcIsRunning, protection.ProtectionNotFound, protection.Exists, protection.MaxCount),
        *(protection.JobQuotaExceeded, protection.SoftDeleted, protection.Invalid),
        *(wal.OldMap, wal.OldEpoch, wal.EpochTooHigh, wal.RegionOfAnotherNode),
        *(wal.ReplayRefused, wal.TooManyRegions, wal.TooManyReplays, wal.PinEnded),
    )
}
"""Code, and whether it has a number → the error. Refusals of protections have: a bare ``NOT_FOUND`` is not theirs."""
TOO_OLD, JOURNAL_AHEAD = "TOO_OLD", "JOURNAL_AHEAD"


class Unreachable(SextonError):
    """The API did not answer in time, or a server that is not Sexton answered."""

    passes = True


class RequestRefused(SextonError):
    """The API refused the request; ``code`` and ``status`` are those of the problem document."""

    def __init__(self, detail: str, code: str, status: int) -> None:
        super().__init__(detail)
        self.code, self.status = code, status


class TooOld(RequestRefused):
    """Records or journal entries behind the requested one are deleted; ``first`` is the first that exists."""

    def __init__(self, detail: str, code: str, status: int, first: int) -> None:
        super().__init__(detail, code, status)
        self.first = first


class JournalAhead(RequestRefused):
    """The journal never had the requested entry: it was restored from a backup, or is another journal."""


class ReplayLost(SextonError):
    """A replay may have holes: its pin was lost, an entry is missing, or the topic is another one. Open it again."""


class ProtectionLost(SextonError):
    """Copied objects may be deleted: the protection could not be renewed in time. Copy again in another run."""


def refusal(problem: ProblemDocument) -> SextonError:
    """Return the error that a problem document describes."""
    if typed := _TYPED.get((problem.code, problem.number is not None)):
        return typed(problem.detail)
    if problem.code == TOO_OLD and problem.first is not None:
        return TooOld(problem.detail, problem.code, problem.status, problem.first)
    if problem.code == JOURNAL_AHEAD:
        return JournalAhead(problem.detail, problem.code, problem.status)
    return RequestRefused(problem.detail, problem.code, problem.status)
