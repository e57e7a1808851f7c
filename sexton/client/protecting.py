"""Blocks during which a job's objects are not deleted: registered, renewed in the background, finished at the end.

Instants are seconds of a monotonic clock. The instant of a renewal is taken before its request is sent.
"""

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Required, TypedDict, Unpack

from sexton.client.api_call import CHUNK_BYTES, ApiCall, ProtectionLost, Steps, request
from sexton.client.sending import AsyncSender, SyncSender
from sexton.kernel.errors import SextonError
from sexton.operations.protections import Items, OnMissing, Registration
from sexton.protection.filter import Filter
from sexton.protection.model import CHUNK_ITEMS, Invalid, Protection, ProtectionNotFound

log = logging.getLogger(__name__)
DEFAULT_TTL_SECONDS = 1_200
RENEWALS = 3
"""How many renewals a protection gets within its own length."""
MARGIN = 0.1
"""The last part of the length, not relied on: clocks differ, and the caller needs time to stop."""
RETRY_SECONDS = 1.0
PHASES = 4
"""Phases of a request that may each take its whole timeout: wait for a connection, connect, send, read."""
SHORTEST_SECONDS = 0.2


@dataclass
class Renewals:
    """One protection or pin that is being renewed."""

    ttl_seconds: float
    renewed_at: float
    _failure: str = field(default="", init=False)
    _refusal: str = field(default="", init=False)

    def wait(self, now: float) -> float:
        """Return the seconds until the next renewal: fewer after a failure, and never beyond the end."""
        due_at = self.renewed_at + self.ttl_seconds / RENEWALS
        pause = min(RETRY_SECONDS, self.ttl_seconds / 20) if self._failure else due_at - now
        return max(0.0, min(pause, self.left(now)))

    def timeout(self, now: float) -> float:
        """Return the timeout in seconds of each phase of a renewal."""
        return max(SHORTEST_SECONDS, self.left(now) / PHASES)

    def left(self, now: float) -> float:
        """Return for how many seconds the protection can be relied on."""
        return max(0.0, self.renewed_at + self.ttl_seconds * (1 - MARGIN) - now)

    def reason_lost(self, now: float) -> str:
        """Return why the protection can no longer be relied on; empty while it can."""
        if self._refusal or self.left(now) > 0:
            return self._refusal
        return f"it could not be renewed in time: {self._failure or 'no server answered'}"

    def record(self, began: float, error: SextonError | None) -> None:
        """Record the result of a renewal that began at ``began``. A lasting refusal means that it is lost."""
        if error is None:
            self.renewed_at, self._failure = began, ""
            return
        self._failure = str(error)
        if not (error.passes or type(error) is SextonError):
            self._refusal = str(error)

    @contextmanager
    def attempt(self, what: str) -> Iterator[float]:
        """Run a block that renews, and record how it ends; ``what``: the protection or pin, in the log."""
        began, error = time.monotonic(), None
        try:
            yield began
        except SextonError as e:
            error = e
            log.warning("%s was not renewed: %s", what, e)
        except Exception as e:
            error = SextonError(f"{type(e).__name__}: {e}")
            log.exception("%s was not renewed", what)
        self.record(began, error)


class RegistrationOptions(TypedDict, total=False):
    """The keyword arguments of ``RegistrationRequest``.

    ``owner``: the person or team to ask about the job; ``description``: the job's purpose. ``objects``: ``VAULT/KEY``
    or URLs; long lists are read twice, so a generator is refused. ``prefixes``: every object whose name begins with one
    of them. ``filter``: instead of both, for very many objects; objects that it matches by chance are protected too.
    ``ttl_seconds``: after which the protection ends unless it is renewed; None: the server's setting. ``valid_ts``: the
    owner's watermark to wait for after the job has finished. ``on_missing``: ``fail``, or ``report``: name objects that
    are missing or being deleted, and protect the others.
    """

    owner: Required[str]
    objects: Collection[str]
    prefixes: Collection[str]
    filter: Filter | None
    ttl_seconds: int | None
    valid_ts: int | None
    description: str
    on_missing: OnMissing


class RegistrationRequest:
    """The objects that a job wants to protect. The object names are not copied."""

    def __init__(self, instance: str, job: str, **options: Unpack[RegistrationOptions]) -> None:
        """Check the arguments and send nothing; raise ``Invalid`` if there are neither names nor a filter, or both.

        ``job``: another name for each run; a token of scope ``sync:JOB`` may use ``JOB`` and ``JOB:RUN``.
        """
        objects, prefixes = options.get("objects", ()), options.get("prefixes", ())
        self._filter = options.get("filter")
        if isinstance(objects, str) or isinstance(prefixes, str):
            raise Invalid("objects and prefixes are lists of names, not one name")
        if not isinstance(objects, Collection) or not isinstance(prefixes, Collection):
            raise Invalid("objects and prefixes are read more than once: give a list, not a generator")
        if bool(objects or prefixes) == (self._filter is not None):
            raise Invalid("name objects and prefixes, or give a filter: one of the two")
        self.instance, self.job, self._objects, self._prefixes = instance, job, objects, prefixes
        others = {name: value for name, value in options.items() if name not in ("objects", "prefixes", "filter")}
        self._body = Registration.model_validate(others | {"job": job})
        self.ttl_seconds = self._body.ttl_seconds

    def steps(self) -> Steps[Protection]:
        """Yield the requests of the registration, and return the protection."""
        if self._filter is not None:
            return (yield from self._send_at_once(filter=self._filter.encode()))
        first, *more = islice(chunks(self._objects, self._prefixes), 2)
        if not more:
            return (yield from self._send_at_once(objects=first.objects, prefixes=first.prefixes))
        digest = hashlib.sha256()  # of all names in their order, so that the API recognises a repeated registration
        for kind, names in (("o", self._objects), ("p", self._prefixes)):
            for name in names:
                digest.update(f"{kind}{name}\n".encode())
        yield from self._send_at_once(digest=digest.hexdigest())
        for number, items in enumerate(chunks(self._objects, self._prefixes)):
            yield request("register_chunk", instance=self.instance, job=self.job, number=number, body=items)
        protection: Protection = yield request(
            "seal", instance=self.instance, job=self.job, on_missing=self._body.on_missing, chunks=number + 1
        )
        return protection

    def _send_at_once(self, **content: object) -> Steps[Protection]:
        protection: Protection = yield request(
            "register_at_once", instance=self.instance, body=self._body.model_copy(update=content)
        )
        return protection


def chunks(objects: Iterable[str], prefixes: Iterable[str]) -> Iterator[Items]:
    """Yield the names of a registration in chunks that the API accepts; at least one chunk."""
    waiting: dict[str, list[str]] = {"objects": [], "prefixes": []}
    count = size = 0
    for kind, names in (("objects", objects), ("prefixes", prefixes)):
        for name in names:
            if count == CHUNK_ITEMS or size > CHUNK_BYTES:
                yield Items(**waiting)
                waiting, count, size = {"objects": [], "prefixes": []}, 0, 0
            waiting[kind].append(name)
            count, size = count + 1, size + len(name.encode()) + len('"",')
    yield Items(**waiting)


OnLost = Callable[[ProtectionLost], object]


class _Block:
    """What both blocks know of their protection, and the requests that they send of it."""

    def __init__(self, request: RegistrationRequest) -> None:
        self._request, self._ttl = request, request.ttl_seconds or DEFAULT_TTL_SECONDS
        self._name = f"the protection of job {request.job}"
        self._lost: ProtectionLost | None = None
        self._renewals = Renewals(self._ttl, float("-inf"))
        self.registered: Protection
        """The registered protection; ``registered.sealed.named`` lists objects that are not protected."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if copied objects may be deleted. Call it before each object, or each few."""
        if self._lost is not None:
            raise self._lost
        if reason := self._reason_lost():
            raise self._error(reason)

    def _reason_lost(self) -> str:
        """Return why the protection cannot be relied on; empty while it can."""
        return self._renewals.reason_lost(time.monotonic())

    def _ends_well(self, error: BaseException | None, *, is_interrupted: bool = False) -> bool:
        """Return whether the block ends without an error; raise ``ProtectionLost`` if it was interrupted by a loss."""
        lost = self._lost
        if lost is None and error is None and (reason := self._reason_lost()):
            lost = self._error(reason)
        if lost is not None and (error is None or is_interrupted or isinstance(error, ProtectionLost)):
            raise lost from None
        if error is not None:
            stays = f"{self._name} stays until its time ends; the same registration continues it"
            error.add_note(stays if lost is None else str(lost))
        return error is None

    def _call(self, operation: str, **values: object) -> ApiCall[Protection]:
        mine = self._request
        return request(operation, instance=mine.instance, job=mine.job, protection=self.registered.id, **values)

    def _renewal(self) -> ApiCall[Protection]:
        return self._call("renew", ttl_seconds=self._ttl, at_least=True)

    def _error(self, reason: str) -> ProtectionLost:
        return ProtectionLost(f"{self._name} is lost: {reason}")


class Protecting(_Block):
    """The result of ``client.protect``, a block. Call ``check`` between objects.

    When the block ends without an exception, the protection is finished. When an exception leaves the block, the
    protection stays until its time ends, so that the same job can be tried again. When the protection cannot be renewed
    in time, or was ended by an operator, ``check`` and the end of the block raise ``ProtectionLost``; what was copied
    since may be incomplete.
    """

    def __init__(self, client: SyncSender, request: RegistrationRequest, on_lost: OnLost | None = None) -> None:
        super().__init__(request)
        self._client, self._on_lost = client, on_lost
        self._over, self._lock = threading.Event(), threading.Lock()
        self._caller, self._pid = threading.current_thread(), 0

    def __enter__(self) -> "Protecting":
        self.registered = self._client.send_all(self._request.steps())
        began = time.monotonic()  # registering chunks may take long, and the protection may be that of an earlier try
        self._client.send(self._renewal())
        self._renewals, self._pid = Renewals(self._ttl, began), os.getpid()
        self._caller = threading.current_thread()
        self.check()  # the renewal may have taken longer than the protection lasts
        for work in (self._renew, self._watch):
            threading.Thread(target=work, name=f"renews {self._request.job}", daemon=True).start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with self._lock:
            self._over.set()
        if not self._ends_well(error):
            return
        try:
            self._client.send(self._call("finish"))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: the protection ended before the job") from e

    def _reason_lost(self) -> str:
        if os.getpid() != self._pid:  # nor may it finish the protection: its parent is still copying
            return "a copy of this process cannot renew it"
        return super()._reason_lost()

    def _renew(self) -> None:
        """Renew until the block ends, the protection is lost, or the caller's thread has ended."""
        call, renewals = self._renewal(), self._renewals
        while self._lost is None and not self._over.wait(renewals.wait(time.monotonic())):
            if not self._caller.is_alive():
                log.error("the thread that protected %s ended inside its block; renewals stop", call.path)
                return
            with renewals.attempt(self._name) as began:
                self._client.send(call, 0, renewals.timeout(began))
            if reason := renewals.reason_lost(time.monotonic()):
                self._lose(reason)

    def _watch(self) -> None:
        """Notice a loss in time even if a renewal hangs."""
        while self._lost is None and not self._over.wait(self._renewals.left(time.monotonic())):
            if reason := self._renewals.reason_lost(time.monotonic()):
                self._lose(reason)

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._over.is_set() or self._lost is not None:
                return
            self._lost = self._error(reason)
        log.error("%s", self._lost)
        if self._on_lost is not None:
            self._on_lost(self._lost)


class AsyncProtecting(_Block):
    """The result of ``AsyncSexton.protect``; see ``Protecting``. It has tasks instead of threads.

    When the protection is lost, the task that entered the block is cancelled once, as by ``asyncio.timeout``, and the
    block's end raises ``ProtectionLost``. A task that continues all the same must call ``check``.
    """

    def __init__(self, client: AsyncSender, request: RegistrationRequest) -> None:
        super().__init__(request)
        self._client, self._over, self._cancelled_before = client, False, 0
        self._caller: asyncio.Task[Any] | None = None
        self._background: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "AsyncProtecting":
        self.registered = await self._client.send_all(self._request.steps())
        began = time.monotonic()
        await self._client.send(self._renewal())
        self._renewals, self._caller = Renewals(self._ttl, began), asyncio.current_task()
        assert self._caller is not None
        self.check()  # the renewal may have taken longer than the protection lasts
        self._cancelled_before = self._caller.cancelling()
        self._background = [asyncio.create_task(self._renew()), asyncio.create_task(self._watch())]
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._over = True
        for task in self._background:
            task.cancel()
        assert self._caller is not None
        if self._lost is not None:  # this block cancelled the task; one that other code cancelled stays cancelled
            self._caller.uncancel()
        is_cancelled = isinstance(error, asyncio.CancelledError)
        is_interrupted = is_cancelled and self._caller.cancelling() <= self._cancelled_before
        if not self._ends_well(error, is_interrupted=is_interrupted):
            return
        try:
            await self._client.send(self._call("finish"))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: the protection ended before the job") from e

    async def _renew(self) -> None:
        """Renew until the block ends or the protection is lost."""
        call, renewals = self._renewal(), self._renewals
        while self._lost is None:
            await asyncio.sleep(renewals.wait(time.monotonic()))
            with renewals.attempt(self._name) as began:
                await asyncio.wait_for(self._client.send(call, 0, renewals.timeout(began)), renewals.left(began))
            if reason := renewals.reason_lost(time.monotonic()):
                self._lose(reason)

    async def _watch(self) -> None:
        """Notice a loss in time even if a renewal hangs."""
        while self._lost is None:
            await asyncio.sleep(self._renewals.left(time.monotonic()))
            if reason := self._renewals.reason_lost(time.monotonic()):
                self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._over or self._lost is not None or self._caller is None:
            return
        self._lost = self._error(reason)
        log.error("%s", self._lost)
        self._caller.cancel()
