"""One request to the API as a value, which both clients send, and the errors that a refusal becomes."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from sexton.kernel.errors import SextonError, code_of
from sexton.operations.fields import ProblemDocument
from sexton.protection import model as protection
from sexton.wal import port as wal

if TYPE_CHECKING:
    from sexton.operations.registry import Operation

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


T = TypeVar("T")
CHUNK_BYTES = 8 << 20
"""The size up to which a chunk is filled. It is half of what the API accepts, because the last name may be long."""
NO_CONTENT = 204


@dataclass(frozen=True)
class ApiCall(Generic[T]):
    """One request. ``path`` begins with ``/v1/``; ``answer``: the type of the answer's body; None: it has none.

    ``repeatable``: whether sending the request twice has the effect of sending it once. ``timeout_seconds``: for long
    polls, instead of the client's own timeout.
    """

    method: str
    path: str
    answer: Any
    body: BaseModel | None = None
    query: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    timeout_seconds: float | None = None

    def content(self) -> bytes | None:
        """Return the body in JSON."""
        return None if self.body is None else self.body.model_dump_json(exclude_none=True, by_alias=True).encode()

    def read(self, status: int, content: bytes) -> T:
        """Return the answer.

        Raises:
            ProtectionError, RequestRefused: the error that the problem document describes.
            Unreachable: the answer is not Sexton's, but that of a proxy or another server.
        """
        try:
            if status >= 400:
                raise refusal(ProblemDocument.model_validate_json(content))
            has_body = self.answer is not None and status != NO_CONTENT
            answer: T = _adapter(self.answer).validate_json(content) if has_body else None  # type: ignore[assignment]
        except ValidationError as e:
            request = f"{self.method} {self.path}"
            raise Unreachable(f"{request} got status {status} from a server that is not Sexton; check the URL") from e
        return answer


Steps = Generator[ApiCall[Any], Any, T]
"""Several requests in a row: the generator yields each request, receives its answer, and returns the result."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def request_of(operation: "Operation", values: Mapping[str, Any]) -> ApiCall[Any]:
    """Return the request for an operation: its path is the longest one for which there are values.

    Raises:
        TypeError: a value is missing or empty, or is none of the operation.
    """
    if unknown := values.keys() - operation.parameters.keys():
        raise TypeError(f"{operation.name} takes no {', '.join(sorted(unknown))}")
    defaults = {name: parameter.default for name, parameter in operation.parameters.items()}
    # An empty value is dropped only where it is the default: a log of no table is that of the whole database.
    given = {name: v for name, v in values.items() if v is not None and not (v == "" and defaults[name] == "")}
    if empty := [name for path in operation.paths for name in operation.path_names(path) if given.get(name) == ""]:
        raise TypeError(f"{operation.name}: {empty[0]} is empty")
    fitting = [path for path in operation.paths if operation.path_names(path) <= given.keys()]
    if not fitting:
        raise TypeError(f"{operation.name} needs {', '.join(sorted(operation.path_names(operation.paths[0])))}")
    path = max(fitting, key=len)
    body: BaseModel | None = values.get(operation.model) if operation.model else None
    if not operation.model and operation.body is not None:
        body = operation.body(**{name: given[name] for name in operation.body.model_fields if name in given})
    query = {name: text(given[name]) for name in operation.query_names(path) if name in given}
    segments = {name: quote(text(given[name]), safe="") for name in operation.path_names(path)}
    return ApiCall(
        operation.method, path.format(**segments), operation.result, body, query, repeatable=not operation.record.once
    )


def text(value: Any) -> str:
    """Return a value as paths and queries have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def request(function: str, **values: Any) -> ApiCall[Any]:
    """Return the request for the operation that a function of ``sexton.operations`` is."""
    from sexton.operations.registry import operation_of

    return request_of(operation_of(function), values)
