"""What can be asked, as values: the synchronous and the asynchronous client send the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from sexton.client.errors import Unreachable, refusal
from sexton.insight.views import Overview
from sexton.kernel.errors import BadInput
from sexton.protection.model import CHUNK_ITEMS, Protection, Sealed
from sexton.protocol import bodies
from sexton.wal.model import Pin, Topic
from sexton.wal.orders import HeartbeatReceipt

T = TypeVar("T")
CHUNK_BYTES = 8 << 20
"""A chunk is smaller where its names are long, so that the API takes its body."""


@dataclass(frozen=True)
class ApiCall(Generic[T]):
    """One request. ``repeatable``: sending it twice does what sending it once does."""

    method: str
    path: str
    answer: Any
    body: BaseModel | None = None
    query: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True

    def content(self) -> bytes | None:
        """Return the body in JSON."""
        return None if self.body is None else self.body.model_dump_json(exclude_none=True).encode()

    def read(self, status: int, content: bytes) -> T:
        """Return what was answered.

        Raises:
            ProtectionError, Refused: as the problem document says.
            Unreachable: somebody else answered: a proxy, another server.
        """
        try:
            if status >= 400:
                raise refusal(bodies.ProblemDocument.model_validate_json(content))
            answered: T = None if self.answer is None else _adapter(self.answer).validate_json(content)  # type: ignore[assignment]
            return answered
        except ValidationError as e:
            raise Unreachable(f"{self.method} {self.path} was answered with {status} and nothing of Sexton's") from e


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _of(instance: str, *rest: object) -> str:
    return "/".join(["/v1/instances", quote(instance, safe=""), *(quote(str(r), safe="") for r in rest)])


def token(user: str, password: str, scope: str | None = None, ttl_seconds: int | None = None) -> ApiCall[bodies.Issued]:
    """A password for a token. Sent twice it gives two. ``BadInput`` of what the API would not read."""
    try:
        body = bodies.Credentials(user=user, password=password, scope=scope, ttl_seconds=ttl_seconds)
    except ValidationError as e:  # its own text repeats what it was given
        wrong = "; ".join(f"{'.'.join(map(str, w['loc']))}: {w['msg']}" for w in e.errors(include_input=False))
        raise BadInput(f"no such login: {wrong}") from None
    return ApiCall("POST", "/v1/token", bodies.Issued, body)


def status() -> ApiCall[Overview]:
    """Every instance on one page."""
    return ApiCall("GET", "/v1/status", Overview)


def why(key: str, instance: str | None = None) -> ApiCall[bodies.StoriesBody]:
    """The story of a key or an id."""
    query = {"key": key} | ({} if instance is None else {"instance": instance})
    return ApiCall("GET", "/v1/why", bodies.StoriesBody, query=query)


def stop(reason: str, instance: str | None = None) -> ApiCall[bodies.StopResult]:
    """Stop deletion of one instance, or of all."""
    path = "/v1/stop" if instance is None else _of(instance, "stop")
    return ApiCall("POST", path, bodies.StopResult, bodies.Stop(reason=reason))


def start(instance: str | None = None) -> ApiCall[bodies.StopResult]:
    """Take a stop back."""
    return ApiCall("POST", "/v1/start" if instance is None else _of(instance, "start"), bodies.StopResult)


def plan(instance: str) -> ApiCall[bodies.Shown]:
    """Store and return what a round would delete now."""
    return ApiCall("POST", _of(instance, "plans"), bodies.Shown, repeatable=False)


def show_plan(number: int) -> ApiCall[bodies.Shown]:
    """A plan and what became of it."""
    return ApiCall("GET", f"/v1/plans/{number}", bodies.Shown)


def apply(number: int) -> ApiCall[bodies.Applying]:
    """Start the round that deletes exactly what a plan says."""
    return ApiCall("POST", f"/v1/plans/{number}/apply", bodies.Applying, repeatable=False)


def watermark(instance: str, value: int) -> ApiCall[None]:
    """Say how far the owner has come."""
    return ApiCall("PUT", _of(instance, "watermark"), None, bodies.Watermark(value=value))


def protections(instance: str) -> ApiCall[list[Protection]]:
    """What is registered, the oldest first."""
    return ApiCall("GET", _of(instance, "protections"), list[Protection])


def protection(instance: str, job: str) -> ApiCall[Protection]:
    """A job's protection."""
    return ApiCall("GET", _of(instance, "protections", job), Protection)


def register(instance: str, body: bodies.Registration) -> ApiCall[Protection]:
    """Register what a job copies, or with a digest open a registration in chunks."""
    return ApiCall("POST", _of(instance, "protections"), Protection, body)


def chunk(instance: str, job: str, number: int, items: bodies.Items) -> ApiCall[Sealed]:
    """Register one chunk."""
    return ApiCall("PUT", _of(instance, "protections", job, "chunks", number), Sealed, items)


def seal(instance: str, job: str, on_missing: bodies.OnMissing, count: int | None = None) -> ApiCall[Protection]:
    """Make chunks a protection; ``count``: of chunks."""
    body = bodies.Seal(on_missing=on_missing, chunks=count)
    return ApiCall("POST", _of(instance, "protections", job, "seal"), Protection, body)


def renew(
    instance: str, job: str, ttl_seconds: int | None, of: int | None = None, *, at_least: bool = False
) -> ApiCall[Protection]:
    """Move its end forward; ``of``: that very one; ``at_least``: one that keeps for longer is as good."""
    body = bodies.Renewal(ttl_seconds=ttl_seconds, id=of, at_least=at_least)
    return ApiCall("PATCH", _of(instance, "protections", job), Protection, body)


def finish(instance: str, job: str, of: int | None = None) -> ApiCall[Protection]:
    """Say that a job is done; ``of``: with that very one."""
    return ApiCall("POST", _of(instance, "protections", job, "finish"), Protection, bodies.Finish(id=of))


def release(instance: str, job: str, reason: str) -> ApiCall[Protection]:
    """End a protection at once."""
    return ApiCall("POST", _of(instance, "protections", job, "release"), Protection, bodies.Release(reason=reason))


def chunks(objects: Iterable[str], prefixes: Iterable[str]) -> Iterator[bodies.Items]:
    """Yield what a registration names in pieces that the API takes, whatever their number."""
    waiting: dict[str, list[str]] = {"objects": [], "prefixes": []}
    count = size = 0
    for kind, names in (("objects", objects), ("prefixes", prefixes)):
        for name in names:
            if count == CHUNK_ITEMS or size > CHUNK_BYTES:
                yield _items(waiting)
                waiting, count, size = {"objects": [], "prefixes": []}, 0, 0
            waiting[kind].append(name)
            count, size = count + 1, size + len(name.encode()) + 3
    yield _items(waiting)


def _items(names: dict[str, Sequence[str]] | dict[str, list[str]]) -> bodies.Items:
    return bodies.Items(objects=tuple(names["objects"]), prefixes=tuple(names["prefixes"]))


def topic(name: str) -> ApiCall[Topic]:
    """A topic as Sexton knows it."""
    return ApiCall("GET", _topic(name), Topic)


def regions(name: str, map_: bodies.RegionMap) -> ApiCall[Topic]:
    """The owner's map of a topic."""
    return ApiCall("PUT", _topic(name, "regions"), Topic, map_)


def heartbeat(node: str, beat: bodies.Heartbeat) -> ApiCall[HeartbeatReceipt]:
    """What a node says of its regions."""
    return ApiCall("POST", f"/v1/nodes/{quote(node, safe='')}/heartbeat", HeartbeatReceipt, beat)


def purge(name: str) -> ApiCall[bodies.Purging]:
    """Start the purge of a topic."""
    return ApiCall("POST", _topic(name, "purge"), bodies.Purging, repeatable=False)


def open_replay(name: str, replay: bodies.Replay) -> ApiCall[Pin]:
    """Pin what a region must read. Sent twice it pins twice; the pin that nobody knows of ends by itself."""
    return ApiCall("POST", _topic(name, "replays"), Pin, replay)


def renew_replay(name: str, id_: str) -> ApiCall[Pin]:
    """Keep what is pinned for as long again."""
    return ApiCall("PATCH", _topic(name, "replays", id_), Pin)


def release_replay(name: str, id_: str) -> ApiCall[None]:
    """End a replay."""
    return ApiCall("DELETE", _topic(name, "replays", id_), None)


def _topic(name: str, *rest: str) -> str:
    return "/".join(["/v1/topics", quote(name, safe=""), *(quote(r, safe="") for r in rest)])
