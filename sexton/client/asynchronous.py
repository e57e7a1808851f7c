"""The asynchronous client: the same calls, awaited."""

import asyncio
import logging
import time
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
from tenacity import AsyncRetrying, RetryError, retry_if_exception

from sexton.client import calls, retrying
from sexton.client.asynchronous_binlogs import AsyncBinlogMethods
from sexton.client.calls import ApiCall
from sexton.client.errors import ProtectionLost, Unreachable
from sexton.client.protecting import KEPT
from sexton.client.registering import RegistrationRequest, What
from sexton.client.renewing import AGAIN_SECONDS, DEFAULT_TTL_SECONDS, Renewals
from sexton.client.retrying import PASSING, PATIENCE_SECONDS, Passing
from sexton.client.sync import NO_TOKEN, TIMEOUT_SECONDS, options
from sexton.insight.views import Overview
from sexton.kernel.errors import SextonError
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Protection
from sexton.protocol.bodies import Applying, Heartbeat, Purging, RegionMap, Shown, StopResult, StoriesBody
from sexton.wal.model import Topic
from sexton.wal.orders import HeartbeatReceipt

log = logging.getLogger(__name__)
T = TypeVar("T")


class AsyncSexton(AsyncBinlogMethods):
    """The API at one address; see ``sexton.client.sync.Sexton``, whose arguments and errors it has."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        **given: Any,
    ) -> None:
        self._http = httpx.AsyncClient(**options(url, token, timeout_seconds), **given)
        self._patience = patience_seconds

    @classmethod
    async def login(
        cls,
        url: str | None,
        user: str,
        password: str,
        *,
        scope: str | None = None,
        ttl_seconds: int | None = None,
        **given: Any,
    ) -> Self:
        """Return a client with a token of a user; see ``sexton.client.sync.Sexton.login``."""
        async with cls(url, NO_TOKEN, **given) as asks:
            issued = await asks.send(calls.token(user, password, scope, ttl_seconds))
        return cls(url, issued.token, **given)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def send(
        self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> T:
        """Send one call, again and again where that may help, and return its answer."""
        patience = self._patience if patience_seconds is None else patience_seconds
        attempts = AsyncRetrying(
            retry=retry_if_exception(lambda e: retrying.again(call, e)),
            wait=retrying.wait,
            stop=retrying.stop(patience),
        )
        try:
            answer: httpx.Response = await attempts(self._once, call, timeout_seconds)
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

    async def _once(self, call: ApiCall[Any], timeout_seconds: float | None) -> httpx.Response:
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds
        answer = await self._http.request(
            call.method, call.path, content=call.content(), params=call.query, timeout=timeout
        )
        if answer.status_code in PASSING:
            raise Passing(answer)
        return answer

    async def status(self) -> Overview:
        """Return every instance: what runs, waits, is due, is kept."""
        return await self.send(calls.status())

    async def why(self, key: str, instance: str | None = None) -> StoriesBody:
        """Return the story of an object's key or a mark's id."""
        return await self.send(calls.why(key, instance))

    async def stop(self, reason: str, instance: str | None = None) -> StopResult:
        """Stop deletion of an instance, or of all, within 5 s."""
        return await self.send(calls.stop(reason, instance))

    async def start(self, instance: str | None = None) -> StopResult:
        """Take a stop back."""
        return await self.send(calls.start(instance))

    async def plan(self, instance: str) -> Shown:
        """Store and return what a round would delete now."""
        return await self.send(calls.plan(instance))

    async def apply(self, plan: int) -> Applying:
        """Start the round that deletes exactly what a plan says; does not wait for it."""
        return await self.send(calls.apply(plan))

    async def watermark(self, instance: str, value: int) -> None:
        """Say how far the owner has come."""
        await self.send(calls.watermark(instance, value))

    async def protections(self, instance: str) -> list[Protection]:
        """Return what is registered, the oldest first."""
        return await self.send(calls.protections(instance))

    async def register(self, wanted: RegistrationRequest) -> Protection:
        """Register and seal what a job wants to be kept, in as many requests as it takes."""
        steps, answer = wanted.calls(), None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as e:
                made: Protection = e.value
                return made
            answer = await self.send(call)

    async def renew(self, instance: str, job: str, ttl_seconds: int | None = None) -> Protection:
        """Move a protection's end forward."""
        return await self.send(calls.renew(instance, job, ttl_seconds))

    async def finish(self, instance: str, job: str) -> Protection:
        """Say that a job is done."""
        return await self.send(calls.finish(instance, job))

    async def release(self, instance: str, job: str, reason: str) -> Protection:
        """End a protection at once."""
        return await self.send(calls.release(instance, job, reason))

    async def topic(self, name: str) -> Topic:
        """Return a topic as Sexton knows it."""
        return await self.send(calls.topic(name))

    async def map_regions(self, topic: str, map_: RegionMap) -> Topic:
        """Say which regions a topic has. To replay one, use the synchronous client in a thread: consumers block."""
        return await self.send(calls.regions(topic, map_))

    async def heartbeat(self, node: str, beat: Heartbeat) -> HeartbeatReceipt:
        """Say how far the regions of a node have flushed."""
        return await self.send(calls.heartbeat(node, beat))

    async def purge(self, topic: str) -> Purging:
        """Start the purge of a topic; does not wait for it."""
        return await self.send(calls.purge(topic))

    def protect(self, instance: str, job: str, **what: Unpack[What]) -> "AsyncProtecting":
        """Return a block in which what is named stays; arguments as of ``RegistrationRequest``."""
        what.setdefault("ttl_seconds", DEFAULT_TTL_SECONDS)
        wanted = RegistrationRequest(instance, job, **what)
        return AsyncProtecting(self, wanted)


class AsyncProtecting:
    """As ``Protecting``: where renewing fails, the task that entered the block is cancelled, and the block's end raises
    ``ProtectionLost``."""

    def __init__(self, client: AsyncSexton, wanted: RegistrationRequest) -> None:
        self._client, self._wanted = client, wanted
        self._ttl = wanted.ttl_seconds or DEFAULT_TTL_SECONDS
        self._lost: ProtectionLost | None = None
        self._over = False
        self._cancelled = 0
        self._renewals = Renewals(self._ttl, float("-inf"))
        self._cancelled_before = 0
        self._caller: asyncio.Task[Any] | None = None
        self._background: list[asyncio.Task[None]] = []
        self.registered: Protection
        """What came of the registration."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if what is copied may be gone."""
        if self._lost is not None:
            raise self._lost
        if why := self._renewals.lost(time.monotonic()):
            raise self._error(why)

    async def __aenter__(self) -> "AsyncProtecting":
        self.registered = await self._client.register(self._wanted)
        began = time.monotonic()
        await self._client.send(self._renewal())
        self._renewals, self._caller = Renewals(self._ttl, began), asyncio.current_task()
        assert self._caller is not None
        self._cancelled_before = self._caller.cancelling()
        self._background = [asyncio.create_task(self._renew()), asyncio.create_task(self._watch())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        assert self._caller is not None
        for task in self._background:
            task.cancel()
        lost = self._lost
        if lost is None and error is None and (why := self._renewals.lost(time.monotonic())):
            lost = self._error(why)
        # Only our own cancellations are taken back: whoever else cancelled the task still has it cancelled.
        for _ in range(self._cancelled):
            self._caller.uncancel()
        ours = isinstance(error, asyncio.CancelledError) and self._caller.cancelling() <= self._cancelled_before
        if lost is not None and (error is None or ours or isinstance(error, ProtectionLost)):
            raise lost from None
        if error is not None:
            error.add_note(KEPT.format(self._wanted.job) if lost is None else str(lost))
            return
        try:
            await self._client.send(calls.finish(self._wanted.instance, self._wanted.job, self.registered.id))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: it ended before the job did") from e

    def _renewal(self) -> ApiCall[Protection]:
        its = self.registered.id
        return calls.renew(self._wanted.instance, self._wanted.job, self._ttl, its, at_least=True)

    async def _renew(self) -> None:
        call, renewals = self._renewal(), self._renewals
        while self._lost is None:
            await asyncio.sleep(renewals.wait(time.monotonic()))
            began, error = time.monotonic(), None
            try:
                await asyncio.wait_for(self._client.send(call, 0, renewals.timeout(began)), renewals.left(began))
            except SextonError as e:
                error = e
                log.warning("the protection of job %s was not renewed: %s", self._wanted.job, e)
            except Exception as e:
                error = SextonError(f"{type(e).__name__}: {e}")
                log.exception("the protection of job %s was not renewed", self._wanted.job)
            if why := renewals.told(began, error):
                self._stop(why)

    async def _watch(self) -> None:
        """Cancel the caller in time, whatever became of renewing; again and again, until the block has ended."""
        while True:
            await asyncio.sleep(self._renewals.left(time.monotonic()) if self._lost is None else AGAIN_SECONDS)
            if self._lost is not None:
                self._cancel()
            elif why := self._renewals.lost(time.monotonic()):
                self._stop(why)

    def _stop(self, why: str) -> None:
        if self._over or self._lost is not None:
            return
        self._lost = self._error(why)
        log.error("%s", self._lost)
        self._cancel()

    def _cancel(self) -> None:
        if not self._over and self._caller is not None:
            self._cancelled += 1
            self._caller.cancel()

    def _error(self, why: str) -> ProtectionLost:
        return ProtectionLost(f"the protection of job {self._wanted.job} is lost: {why}")
