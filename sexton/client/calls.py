"""The requests about status, plans, protections and topics, as values. ``sexton.client.methods`` makes them methods."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import RootModel

from sexton.client.api_call import CHUNK_BYTES, ApiCall, url_path, url_query
from sexton.protocol.plans import PlanDetails, StartedRound
from sexton.protocol.protections import (
    CHUNK_ITEMS,
    Finish,
    Items,
    OnMissing,
    Protection,
    Registration,
    Release,
    Renewal,
    Seal,
    Sealed,
    Watermark,
)
from sexton.protocol.status import BlockerRows, Overview, Stop, StopResult, StoriesBody
from sexton.protocol.topics import Heartbeat, HeartbeatReceipt, Pin, RegionMap, Replay, StartedPurge, Topic


def status(instance: str | None = None) -> ApiCall[Overview]:
    """Return the state of one instance, or of all that the token covers: what runs, waits, is due and is blocked."""
    return ApiCall("GET", "/v1/status", Overview, query=url_query(instance=instance))


def blockers(instance: str | None = None) -> ApiCall[BlockerRows]:
    """Return everything that blocks deletions now, of one instance or of all that the token covers."""
    return ApiCall("GET", "/v1/blockers", BlockerRows, query=url_query(instance=instance))


def why(key: str, instance: str | None = None) -> ApiCall[StoriesBody]:
    """Explain an object's key or a mark's id: whether it is deleted, and what blocks its deletion."""
    return ApiCall("GET", "/v1/why", StoriesBody, query=url_query(key=key, instance=instance))


def stop(reason: str, instance: str | None = None) -> ApiCall[StopResult]:
    """Stop deletion in an instance, or in all of them, within 5 s."""
    path = "/v1/stop" if instance is None else url_path("instances", instance, "stop")
    return ApiCall("POST", path, StopResult, Stop(reason=reason))


def start(instance: str | None = None) -> ApiCall[StopResult]:
    """Revoke the stop of an instance, or the stop of all instances."""
    path = "/v1/start" if instance is None else url_path("instances", instance, "start")
    return ApiCall("POST", path, StopResult)


def plan(instance: str) -> ApiCall[PlanDetails]:
    """Store and return the plan of what a round would delete now."""
    return ApiCall("POST", url_path("instances", instance, "plans"), PlanDetails, repeatable=False)


def apply(plan: int) -> ApiCall[StartedRound]:
    """Start the round that deletes exactly what a plan lists. Do not wait for its end."""
    return ApiCall("POST", url_path("plans", plan, "apply"), StartedRound, repeatable=False)


def query(instance: str, owner: str, operation: str, **values: Any) -> ApiCall[Any]:
    """Return what an operation reads of an owner's records in Sexton's database; the arguments: as for ``operate``."""
    return ApiCall("GET", url_path("instances", instance, owner, operation), object, query=url_query(**values))


def operate(instance: str, owner: str, operation: str, **values: Any) -> ApiCall[Any]:
    """Change records that an owner keeps in Sexton's database; return the result of the operation.

    Args:
        instance: an instance of this owner.
        owner: the owner of the instance, as `sexton instance list` prints it.
        operation: its name; ``sexton OWNER INSTANCE`` prints all of them, with their values.
        values: of the operation.
    """
    path = url_path("instances", instance, owner, operation)
    return ApiCall("POST", path, object, RootModel[dict[str, Any]](values), repeatable=False)


def watermark(instance: str, value: int) -> ApiCall[None]:
    """Report how far the owner has come. The next round ends the finished protections below this value."""
    return ApiCall("PUT", url_path("instances", instance, "watermark"), None, Watermark(value=value))


def protections(instance: str) -> ApiCall[list[Protection]]:
    """Return the registered protections, the oldest first."""
    return ApiCall("GET", url_path("instances", instance, "protections"), list[Protection])


def register_at_once(instance: str, body: Registration) -> ApiCall[Protection]:
    """Register all items of a job in one request; or, with a digest, open a registration in chunks."""
    return ApiCall("POST", url_path("instances", instance, "protections"), Protection, body)


def register_chunk(instance: str, job: str, number: int, items: Items) -> ApiCall[Sealed]:
    """Register one chunk of items. ``number``: from 0."""
    return ApiCall("PUT", url_path("instances", instance, "protections", job, "chunks", number), Sealed, items)


def seal(instance: str, job: str, on_missing: OnMissing, chunks: int | None = None) -> ApiCall[Protection]:
    """End a registration in chunks. ``chunks``: how many were sent."""
    body = Seal(on_missing=on_missing, chunks=chunks)
    return ApiCall("POST", url_path("instances", instance, "protections", job, "seal"), Protection, body)


def renew(instance: str, job: str, ttl_seconds: int | None = None) -> ApiCall[Protection]:
    """Let a protection end ``ttl_seconds`` from now; None: the server's default."""
    body = Renewal(ttl_seconds=ttl_seconds, id=None, at_least=False)
    return ApiCall("PATCH", url_path("instances", instance, "protections", job), Protection, body)


def renew_registration(instance: str, job: str, registration_id: int, ttl_seconds: int) -> ApiCall[Protection]:
    """Let this very protection of the job end no earlier than ``ttl_seconds`` from now."""
    body = Renewal(ttl_seconds=ttl_seconds, id=registration_id, at_least=True)
    return ApiCall("PATCH", url_path("instances", instance, "protections", job), Protection, body)


def finish(instance: str, job: str) -> ApiCall[Protection]:
    """Report that a job is done. Its protection ends when the owner's watermark has passed it."""
    return ApiCall("POST", url_path("instances", instance, "protections", job, "finish"), Protection, Finish(id=None))


def finish_registration(instance: str, job: str, registration_id: int) -> ApiCall[Protection]:
    """Report that the job of this very protection is done."""
    body = Finish(id=registration_id)
    return ApiCall("POST", url_path("instances", instance, "protections", job, "finish"), Protection, body)


def release(instance: str, job: str, reason: str) -> ApiCall[Protection]:
    """End a protection at once."""
    body = Release(reason=reason)
    return ApiCall("POST", url_path("instances", instance, "protections", job, "release"), Protection, body)


def chunks(objects: Iterable[str], prefixes: Iterable[str]) -> Iterator[Items]:
    """Yield the names of a registration in chunks that the API accepts; at least one chunk."""
    waiting: dict[str, list[str]] = {"objects": [], "prefixes": []}
    count = size = 0
    for kind, names in (("objects", objects), ("prefixes", prefixes)):
        for name in names:
            if count == CHUNK_ITEMS or size > CHUNK_BYTES:
                yield _items(waiting)
                waiting, count, size = {"objects": [], "prefixes": []}, 0, 0
            waiting[kind].append(name)
            count, size = count + 1, size + len(name.encode()) + len('"",')
    yield _items(waiting)


def _items(names: dict[str, list[str]]) -> Items:
    return Items(objects=tuple(names["objects"]), prefixes=tuple(names["prefixes"]))


def topic(name: str) -> ApiCall[Topic]:
    """Return a topic with its regions."""
    return ApiCall("GET", url_path("topics", name), Topic)


def map_regions(topic: str, map_: RegionMap, instance: str | None = None) -> ApiCall[Topic]:
    """Report all regions of a topic. Send it before the first append of each region.

    ``instance``: needed where there are several and the token is of all; the topic belongs to it from the first map on.
    """
    return ApiCall("PUT", url_path("topics", topic, "regions"), Topic, map_, query=url_query(instance=instance))


def heartbeat(node: str, beat: Heartbeat, instance: str | None = None) -> ApiCall[HeartbeatReceipt]:
    """Report how far the regions of a node have flushed, in the topics of one instance."""
    query = url_query(instance=instance)
    return ApiCall("POST", url_path("nodes", node, "heartbeat"), HeartbeatReceipt, beat, query=query)


def purge(topic: str) -> ApiCall[StartedPurge]:
    """Start the purge of a topic. Do not wait for its end."""
    return ApiCall("POST", url_path("topics", topic, "purge"), StartedPurge, repeatable=False)


def open_replay(topic: str, replay: Replay) -> ApiCall[Pin]:
    """Pin the entries that a region must read. A repeated request pins twice; the unused pin expires by itself."""
    return ApiCall("POST", url_path("topics", topic, "replays"), Pin, replay)


def renew_replay(topic: str, pin_id: str) -> ApiCall[Pin]:
    """Extend a pin by its own length."""
    return ApiCall("PATCH", url_path("topics", topic, "replays", pin_id), Pin)


def release_replay(topic: str, pin_id: str) -> ApiCall[None]:
    """End a replay and delete its pin."""
    return ApiCall("DELETE", url_path("topics", topic, "replays", pin_id), None)
