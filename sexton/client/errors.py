"""What a client raises. Refusals of protections are ``sexton.protection.errors``, as at the command line."""

from collections.abc import Callable

from sexton.kernel.errors import SextonError, code_of
from sexton.protection import errors as protections
from sexton.protocol.bodies import ProblemDocument
from sexton.wal import port as wal

_NUMBERED: dict[str, Callable[[str], SextonError]] = {
    kind.name: kind
    for kind in (
        protections.GcIsRunning,
        protections.ProtectionNotFound,
        protections.Exists,
        protections.MaxCount,
        protections.SoftDeleted,
        protections.Invalid,
    )
}
"""Of protections. What else is ``NOT_FOUND`` has no number."""
_TYPED: dict[str, Callable[[str], SextonError]] = {
    code_of(kind("")): kind for kind in (wal.OldMap, wal.OldEpoch, wal.ReplayRefused, wal.PinEnded)
}
TOO_OLD, JOURNAL_AHEAD = "TOO_OLD", "JOURNAL_AHEAD"


class Unreachable(SextonError):
    """The API did not answer in time, or with what it never answers."""

    passes = True


class RequestRefused(SextonError):
    """The API refused; ``code`` and ``status`` are those of the problem document."""

    def __init__(self, detail: str, code: str, status: int) -> None:
        super().__init__(detail)
        self.code, self.status = code, status


class TooOld(RequestRefused):
    """Records, or entries of the journal, behind the one that was named are gone; ``first`` is the first there is."""

    def __init__(self, detail: str, code: str, status: int, first: int) -> None:
        super().__init__(detail, code, status)
        self.first = first


class JournalAhead(RequestRefused):
    """The journal never had the entry that was named: it was restored from a backup, or is another one's."""


class ReplayLost(SextonError):
    """A replay may have holes: what it reads could not be kept, is not there, or is another topic's. Open it again."""


class ProtectionLost(SextonError):
    """What was copied may be gone: the protection could not be renewed in time. Copy again, under another run."""


def refusal(problem: ProblemDocument) -> SextonError:
    """Return the error that a problem document tells of."""
    typed = (_TYPED if problem.number is None else _NUMBERED).get(problem.code)
    if typed is not None:
        return typed(problem.detail)
    if problem.code == TOO_OLD and problem.first is not None:
        return TooOld(problem.detail, problem.code, problem.status, problem.first)
    if problem.code == JOURNAL_AHEAD:
        return JournalAhead(problem.detail, problem.code, problem.status)
    return RequestRefused(problem.detail, problem.code, problem.status)
