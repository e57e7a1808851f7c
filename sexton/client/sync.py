"""The synchronous client."""

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
from tenacity import RetryError, Retrying, retry_if_exception

from sexton.client import calls, retrying
from sexton.client.binlogs import BinlogMethods
from sexton.client.calls import ApiCall
from sexton.client.errors import Unreachable
from sexton.client.protecting import OnLost, Protecting
from sexton.client.registering import RegistrationRequest, What
from sexton.client.renewing import DEFAULT_TTL_SECONDS
from sexton.client.replaying import Replaying, TopicSource
from sexton.client.retrying import PASSING, PATIENCE_SECONDS, Passing
from sexton.insight.views import Overview
from sexton.kernel.errors import BadInput
from sexton.protection.model import Protection
from sexton.protocol.bodies import Applying, Heartbeat, Purging, RegionMap, Replay, Shown, StopResult, StoriesBody
from sexton.wal.model import Topic
from sexton.wal.orders import HeartbeatReceipt

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
NO_TOKEN = "none"
"""What is sent as a token where none is needed, so that the environment's is not."""


def options(url: str | None, token: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Return what a client of httpx is made with; ``BadInput`` where nobody says which server or token."""
    url, token = url or os.environ.get("SEXTON_API_URL"), token or os.environ.get("SEXTON_TOKEN")
    if not url or not token:
        raise BadInput("a client needs url and token; or set SEXTON_API_URL and SEXTON_TOKEN")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "sexton-client"}
    return {"base_url": url, "headers": headers, "timeout": timeout_seconds}


class Sexton(BinlogMethods):
    """The API at one address. Safe for threads; ``close`` it, or use it in a ``with``.

    Every method raises the typed error of a refusal (``sexton.protection.errors``, else ``Refused``), or
    ``Unreachable`` where nobody answered in ``patience_seconds``.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        **given: Any,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: ``https://HOST:PORT``; by default ``SEXTON_API_URL`` of the environment.
            token: by default ``SEXTON_TOKEN`` of the environment.
            patience_seconds: for how long a request is sent again where nobody answers.
            timeout_seconds: of one request.
            given: further options of ``httpx.Client``, such as ``verify``.
        """
        self._http = httpx.Client(**options(url, token, timeout_seconds), **given)
        self._patience = patience_seconds

    @classmethod
    def login(
        cls,
        url: str | None,
        user: str,
        password: str,
        *,
        scope: str | None = None,
        ttl_seconds: int | None = None,
        **given: Any,
    ) -> Self:
        """Return a client with a token of a user, which ends after ``ttl_seconds`` (900): nothing renews it.

        Args:
            url: as of the class.
            user: made by ``sexton user add``.
            password: of the user; it is not kept.
            scope: of the token, no more than the user's own; None: just that.
            ttl_seconds: 60 to 3600.
            given: further arguments of the class.

        Raises:
            Refused: ``NOT_AUTHORIZED``, ``THROTTLED`` or ``FORBIDDEN``, as its ``code`` says.
            BadInput, Unreachable: as every call.
        """
        with cls(url, NO_TOKEN, **given) as asks:
            issued = asks.send(calls.token(user, password, scope, ttl_seconds))
        return cls(url, issued.token, **given)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def send(self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None) -> T:
        """Send one call, again and again where that may help, and return its answer; seconds as the client's own."""
        patience = self._patience if patience_seconds is None else patience_seconds
        attempts = Retrying(
            retry=retry_if_exception(lambda e: retrying.again(call, e)),
            wait=retrying.wait,
            stop=retrying.stop(patience),
        )
        try:
            answer = attempts(self._once, call, timeout_seconds)
        except RetryError as e:
            error = e.last_attempt.exception()
            if isinstance(error, Passing):
                return call.read(error.answer.status_code, error.answer.content)
            raise Unreachable(f"{call.method} {call.path} was not answered: {error}") from e
        except httpx.HTTPError as e:
            raise Unreachable(f"{call.method} {call.path} was not answered: {e}") from e
        except Passing as e:
            answer = e.answer
        return call.read(answer.status_code, answer.content)

    def _once(self, call: ApiCall[Any], timeout_seconds: float | None) -> httpx.Response:
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds
        answer = self._http.request(call.method, call.path, content=call.content(), params=call.query, timeout=timeout)
        if answer.status_code in PASSING:
            raise Passing(answer)
        return answer

    def status(self) -> Overview:
        """Return every instance: what runs, waits, is due, is kept."""
        return self.send(calls.status())

    def why(self, key: str, instance: str | None = None) -> StoriesBody:
        """Return the story of an object's key or a mark's id."""
        return self.send(calls.why(key, instance))

    def stop(self, reason: str, instance: str | None = None) -> StopResult:
        """Stop deletion of an instance, or of all, within 5 s."""
        return self.send(calls.stop(reason, instance))

    def start(self, instance: str | None = None) -> StopResult:
        """Take a stop back."""
        return self.send(calls.start(instance))

    def plan(self, instance: str) -> Shown:
        """Store and return what a round would delete now."""
        return self.send(calls.plan(instance))

    def apply(self, plan: int) -> Applying:
        """Start the round that deletes exactly what a plan says; does not wait for it."""
        return self.send(calls.apply(plan))

    def watermark(self, instance: str, value: int) -> None:
        """Say how far the owner has come: finished protections below it end with the next round."""
        self.send(calls.watermark(instance, value))

    def protections(self, instance: str) -> list[Protection]:
        """Return what is registered, the oldest first."""
        return self.send(calls.protections(instance))

    def register(self, wanted: RegistrationRequest) -> Protection:
        """Register and seal what a job wants to be kept, in as many requests as it takes."""
        steps, answer = wanted.calls(), None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as e:
                made: Protection = e.value
                return made
            answer = self.send(call)

    def renew(self, instance: str, job: str, ttl_seconds: int | None = None) -> Protection:
        """Move a protection's end forward."""
        return self.send(calls.renew(instance, job, ttl_seconds))

    def finish(self, instance: str, job: str) -> Protection:
        """Say that a job is done: the owner's watermark decides."""
        return self.send(calls.finish(instance, job))

    def release(self, instance: str, job: str, reason: str) -> Protection:
        """End a protection at once."""
        return self.send(calls.release(instance, job, reason))

    def topic(self, name: str) -> Topic:
        """Return a topic as Sexton knows it."""
        return self.send(calls.topic(name))

    def map_regions(self, topic: str, map_: RegionMap) -> Topic:
        """Say which regions a topic has, all of them: before the first append of each."""
        return self.send(calls.regions(topic, map_))

    def heartbeat(self, node: str, beat: Heartbeat) -> HeartbeatReceipt:
        """Say how far the regions of a node have flushed."""
        return self.send(calls.heartbeat(node, beat))

    def purge(self, topic: str) -> Purging:
        """Start the purge of a topic; does not wait for it."""
        return self.send(calls.purge(topic))

    def replay(
        self,
        topic: str,
        region: str,
        *,
        epoch: int,
        flushed: Sequence[int | None] = (None,),
        node: str = "",
        kafka: Mapping[str, str] | None = None,
        source: TopicSource | None = None,
    ) -> Replaying:
        """Return a block that pins and reads what a region needs of its topic; see ``Replaying``.

        Args:
            topic: where its entries are.
            region: which is opened, by whoever enters the block.
            epoch: of its new leader; newer than any before.
            flushed: of each stream the last entry that the manifest names, None: no file.
            node: who opens it; by default whose token it is.
            kafka: librdkafka's settings.
            source: what reads instead of Kafka.

        Raises:
            BadInput: neither ``kafka`` nor ``source`` is given.
            ReplayRefused, OldEpoch, Refused: on entering, as the API refuses.
            ReplayLost: on entering, while it reads, or at its end: an entry is not there.
        """
        if source is None:
            if not kafka:
                raise BadInput("a replay needs kafka={'bootstrap.servers': …}, or a source of its own")
            from sexton.client.kafka import KafkaSource

            source = KafkaSource(topic, kafka)
        return Replaying(self, topic, source, Replay(region=region, epoch=epoch, flushed=tuple(flushed), node=node))

    def protect(
        self,
        instance: str,
        job: str,
        *,
        interrupt: bool = True,
        on_lost: OnLost | None = None,
        **what: Unpack[What],
    ) -> Protecting:
        """Return a block in which what is named stays; arguments as of ``RegistrationRequest``. See ``Protecting``.

        ``interrupt``: where it is lost, stop the thread that entered the block at its next step in Python, so that the
        block raises ``ProtectionLost``; otherwise only ``check`` and the block's end raise it. ``on_lost`` is called
        from another thread: to end what that does not reach, a child process or a long call into C.
        """
        what.setdefault("ttl_seconds", DEFAULT_TTL_SECONDS)
        wanted = RegistrationRequest(instance, job, **what)
        return Protecting(self, wanted, interrupt=interrupt, on_lost=on_lost)
