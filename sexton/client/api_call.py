"""One request to the API as a value; the synchronous and the asynchronous client send the same values."""

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from sexton.client.errors import Unreachable, refusal
from sexton.protocol.problems import ProblemDocument

T = TypeVar("T")
CHUNK_BYTES = 8 << 20
"""The size up to which a chunk is filled. It is half of what the API accepts, because the last name may be long."""
NO_CONTENT = 204


@dataclass(frozen=True)
class ApiCall(Generic[T]):
    """One request.

    Attributes:
        method: of HTTP.
        path: begins with ``/v1/``.
        answer: the type of the answer's body; None: it has none.
        body: of the request.
        query: of the URL.
        repeatable: whether sending the request twice has the effect of sending it once.
        unwrap: the field of the answer that the caller gets; empty: the whole answer.
        timeout_seconds: for long polls, instead of the client's own timeout.
    """

    method: str
    path: str
    answer: Any
    body: BaseModel | None = None
    query: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    unwrap: str = ""
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
            answer: Any = None if not has_body else _adapter(self.answer).validate_json(content)
        except ValidationError as e:
            request = f"{self.method} {self.path}"
            raise Unreachable(f"{request} got status {status} from a server that is not Sexton; check the URL") from e
        result: T = getattr(answer, self.unwrap) if self.unwrap else answer
        return result


Steps = Generator[ApiCall[Any], Any, T]
"""Several requests in a row: the generator yields each request, receives its answer, and returns the result."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def url_path(*segments: object) -> str:
    """Return ``/v1`` and the segments, quoted."""
    return "/".join(["/v1", *(quote(str(segment), safe="") for segment in segments)])


def url_query(**parameters: object) -> dict[str, str]:
    """Return the parameters that are not None, as text."""
    return {name: str(value) for name, value in parameters.items() if value is not None}
