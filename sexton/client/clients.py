"""The two clients, which send the same requests, and a follower of the journal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

import httpx
from tenacity import AsyncRetrying, Retrying

from sexton.client.api_call import ApiCall, JournalAhead, TooOld
from sexton.client.methods import ApiMethods, journal, snapshot
from sexton.client.protecting import (
    DEFAULT_TTL_SECONDS,
    AsyncProtecting,
    OnLost,
    Protecting,
    RegistrationOptions,
    RegistrationRequest,
)
from sexton.client.replaying import Replaying, TopicSource
from sexton.client.sending import (
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    AsyncSender,
    SyncSender,
    attempt_options,
    connection_options,
    final_answer,
    last_answer,
    request_options,
)
from sexton.kernel.errors import BadInput
from sexton.replication.journal.replaying import FollowerState
from sexton.wal.policy import Replay

T = TypeVar("T")


class Following:
    """The result of ``client.follow``: call ``step`` repeatedly, from one thread at a time.

    A stored state continues after its ``applied``. Applying an entry twice does no harm.
    """

    def __init__(self, client: SyncSender, replica: FollowerState, follower: str, instance: str = "") -> None:
        self._client, self._follower, self._instance = client, follower, instance
        self.replica = replica
        self.restarts = 0
        """How often a snapshot replaced the state: entries were deleted, or the journal is another one."""

    def step(self, wait: float = 0) -> bool:
        """Apply the next entries, at most 100; return whether there were any, or a snapshot was applied.

        ``wait``: how many seconds, up to 30, the API waits for an entry if there is none yet. ``RequestRefused``,
        ``Unreachable``: no entry was applied; the next step requests them again.
        """
        try:
            page = self._client.send(journal(self.replica.applied, wait, self._follower, self._instance))
        except (TooOld, JournalAhead):
            self.replica.load_snapshot(self._client.send(snapshot(self._follower, self._instance)))
            self.restarts += 1
            return True
        for entry in page.entries:
            self.replica.apply(entry)
        return bool(page.entries)

    def catch_up(self) -> None:
        """Step until there are no more entries."""
        while self.step():
            pass


class _Client(ApiMethods):
    """What both clients have: connections to one address, and how long they repeat a request."""

    _connect: Callable[..., Any]
    """``httpx.Client``, or the asynchronous one."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        **http_options: Any,
    ) -> None:
        """Create the client. It connects with its first request.

        ``url``: ``https://HOST:PORT``, by default ``SEXTON_API_URL`` of the environment; ``token``: ``SEXTON_TOKEN``.
        ``patience_seconds``: how long a request is repeated while no server answers; ``timeout_seconds``: of one
        attempt. ``http_options``: further arguments of ``httpx.Client``, such as ``verify``.
        """
        self._http = self._connect(**connection_options(url, token, timeout_seconds), **http_options)
        self._patience = patience_seconds


class Sexton(_Client, SyncSender):
    """The API at one address. Safe for threads; ``close`` it, or use it in a ``with``.

    The methods of the API are declared in ``sexton.client.methods``. Each raises the typed error of a refusal
    (of ``sexton.protection.model`` and ``sexton.wal.port``, else ``RequestRefused``), or ``Unreachable`` if no
    server answered within ``patience_seconds``.
    """

    _connect = httpx.Client

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None) -> T:
        patience = self._patience if patience_seconds is None else patience_seconds
        options = request_options(call, timeout_seconds)
        try:
            attempts = Retrying(**attempt_options(call, patience))
            answer = attempts(lambda: final_answer(self._http.request(**options)))
        except httpx.HTTPError as error:
            answer = last_answer(call, error)
        return call.read(answer.status_code, answer.content)

    def follow(self, replica: FollowerState, *, follower: str, instance: str = "") -> Following:
        """Return an object that keeps a follower's state up to date with the journal, step by step.

        The follower stores its own records and replicas. Entries that it has not applied are retained under its name.
        ``instance``: needed where there are several.
        """
        return Following(self, replica, follower, instance)

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
        """Return a block that pins and reads the entries that a region needs of its topic; see ``Replaying``.

        Args:
            topic: contains the region's entries.
            region: the region that the caller opens.
            epoch: of the region's new leader; higher than any epoch before.
            flushed: for each stream, the last entry that the region's manifest names; None: it has no file.
            node: the node that opens the region; by default the node of the token.
            kafka: librdkafka's settings.
            source: reads the topic instead of Kafka.

        Raises:
            BadInput: neither ``kafka`` nor ``source`` is given.
            ReplayRefused, OldEpoch, RequestRefused: on entering the block, if the API refuses.
            ReplayLost: on entering, while reading, or at the end of the block: an entry is missing.
        """
        if source is None:
            if not kafka:
                raise BadInput("a replay needs kafka={'bootstrap.servers': …}, or a source of its own")
            from sexton.client.kafka import KafkaSource  # needs confluent_kafka

            source = KafkaSource(topic, kafka)
        return Replaying(self, topic, source, Replay(region=region, epoch=epoch, flushed=tuple(flushed), node=node))

    def protect(
        self,
        instance: str,
        job: str,
        *,
        on_lost: OnLost | None = None,
        **options: Unpack[RegistrationOptions],
    ) -> Protecting:
        """Return a block during which the registered objects are not deleted; see ``Protecting``.

        The options are those of ``RegistrationRequest``. ``on_lost`` is called from another thread if the protection is
        lost, to end work that does not call ``check``: a child process or a long copy of one object.
        """
        options.setdefault("ttl_seconds", DEFAULT_TTL_SECONDS)
        request = RegistrationRequest(instance, job, **options)
        return Protecting(self, request, on_lost)


class AsyncSexton(_Client, AsyncSender):
    """The API at one address; arguments and errors are those of ``sexton.client.Sexton``.

    To replay a topic, use the synchronous client in a thread: Kafka consumers block.
    """

    _connect = httpx.AsyncClient

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> T:
        patience = self._patience if patience_seconds is None else patience_seconds
        options = request_options(call, timeout_seconds)

        async def attempt() -> httpx.Response:
            return final_answer(await self._http.request(**options))

        try:
            answer: httpx.Response = await AsyncRetrying(**attempt_options(call, patience))(attempt)
        except httpx.HTTPError as error:
            answer = last_answer(call, error)
        return call.read(answer.status_code, answer.content)

    def protect(self, instance: str, job: str, **options: Unpack[RegistrationOptions]) -> AsyncProtecting:
        """Return a block during which the registered objects are not deleted; see ``RegistrationRequest``."""
        options.setdefault("ttl_seconds", DEFAULT_TTL_SECONDS)
        return AsyncProtecting(self, RegistrationRequest(instance, job, **options))
