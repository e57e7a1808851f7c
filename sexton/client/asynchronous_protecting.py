"""The block of ``sexton.client.protecting`` for coroutines: tasks instead of threads."""

import asyncio
import logging
import time
from types import TracebackType
from typing import Any

from sexton.client.api_call import ApiCall, request
from sexton.client.errors import ProtectionLost
from sexton.client.protecting import NOTE
from sexton.client.registering import RegistrationRequest
from sexton.client.renewing import DEFAULT_TTL_SECONDS, Renewals
from sexton.client.sender import AsyncSender
from sexton.kernel.errors import SextonError
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Protection

log = logging.getLogger(__name__)


class AsyncProtecting:
    """The result of ``AsyncSexton.protect``; see ``Protecting``.

    When the protection is lost, the task that entered the block is cancelled once, as by ``asyncio.timeout``, and the
    block's end raises ``ProtectionLost``. A task that continues all the same must call ``check``.
    """

    def __init__(self, client: AsyncSender, request: RegistrationRequest) -> None:
        self._client, self._request = client, request
        self._ttl = request.ttl_seconds or DEFAULT_TTL_SECONDS
        self._lost: ProtectionLost | None = None
        self._over = False
        self._renewals = Renewals(self._ttl, float("-inf"))
        self._cancelled_before = 0
        self._caller: asyncio.Task[Any] | None = None
        self._background: list[asyncio.Task[None]] = []
        self.registered: Protection
        """The registered protection."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if copied objects may be deleted."""
        if self._lost is not None:
            raise self._lost
        if reason := self._renewals.reason_lost(time.monotonic()):
            raise self._error(reason)

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        for task in self._background:
            task.cancel()
        lost = self._lost
        if lost is None and error is None and (reason := self._renewals.reason_lost(time.monotonic())):
            lost = self._error(reason)
        interrupted = self._withdraw_cancellation(error)
        if lost is not None and (error is None or interrupted or isinstance(error, ProtectionLost)):
            raise lost from None
        if error is not None:
            error.add_note(NOTE.format(self._request.job) if lost is None else str(lost))
            return
        await self._finish()

    def _withdraw_cancellation(self, error: BaseException | None) -> bool:
        """Withdraw the cancellation by this block; return whether nothing else cancelled the task.

        A task that was cancelled by other code stays cancelled.
        """
        assert self._caller is not None
        if self._lost is not None:
            self._caller.uncancel()
        return isinstance(error, asyncio.CancelledError) and self._caller.cancelling() <= self._cancelled_before

    async def _finish(self) -> None:
        mine = self._request
        try:
            await self._client.send(
                request("finish", instance=mine.instance, job=mine.job, protection=self.registered.id)
            )
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: the protection ended before the job") from e

    def _renewal(self) -> ApiCall[Protection]:
        mine = self._request
        values = {"ttl_seconds": self._ttl, "protection": self.registered.id, "at_least": True}
        return request("renew", instance=mine.instance, job=mine.job, **values)

    async def _renew(self) -> None:
        """Renew until the block ends or the protection is lost."""
        call, renewals = self._renewal(), self._renewals
        while self._lost is None:
            await asyncio.sleep(renewals.wait(time.monotonic()))
            began, error = time.monotonic(), None
            try:
                await asyncio.wait_for(self._client.send(call, 0, renewals.timeout(began)), renewals.left(began))
            except SextonError as e:
                error = e
                log.warning("the protection of job %s was not renewed: %s", self._request.job, e)
            except Exception as e:
                error = SextonError(f"{type(e).__name__}: {e}")
                log.exception("the protection of job %s was not renewed", self._request.job)
            if reason := renewals.record(began, error):
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

    def _error(self, reason: str) -> ProtectionLost:
        return ProtectionLost(f"the protection of job {self._request.job} is lost: {reason}")
