"""What a client raises. Refusals of protections are ``sexton.protection.errors``, as at the command line."""

from collections.abc import Callable

from sexton.api.bodies import Problem
from sexton.errors import SextonError, code_of
from sexton.protection import errors as protections
from sexton.wal import port as wal

_TYPED: dict[str, Callable[[str], SextonError]] = {
    kind.name: kind
    for kind in (
        protections.GcIsRunning,
        protections.NotFound,
        protections.Exists,
        protections.MaxCount,
        protections.SoftDeleted,
        protections.Invalid,
    )
} | {code_of(kind("")): kind for kind in (wal.OldMap, wal.OldEpoch, wal.ReplayRefused, wal.PinEnded)}


class Unreachable(SextonError):
    """The API did not answer in time, or with what it never answers."""

    passes = True


class Refused(SextonError):
    """The API refused; ``code`` and ``status`` are those of the problem document."""

    def __init__(self, detail: str, code: str, status: int) -> None:
        super().__init__(detail)
        self.code, self.status = code, status


class ReplayLost(SextonError):
    """A replay may have holes: what it reads could not be kept, is not there, or is another topic's. Open it again."""


class ProtectionLost(SextonError):
    """What was copied may be gone: the protection could not be renewed in time. Copy again, under another run."""


def refusal(problem: Problem) -> SextonError:
    """Return the error that a problem document tells of."""
    if typed := _TYPED.get(problem.code):
        return typed(problem.detail)
    return Refused(problem.detail, problem.code, problem.status)
