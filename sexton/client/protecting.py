"""Blocks during which a job's objects are not deleted: registered, renewed in the background, finished at the end."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from sexton.client.api_call import ApiCall, request
from sexton.client.errors import ProtectionLost
from sexton.client.registering import RegistrationRequest
from sexton.client.renewing import DEFAULT_TTL_SECONDS, Renewals
from sexton.client.sending import AsyncSender, SyncSender
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Protection

log = logging.getLogger(__name__)
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
