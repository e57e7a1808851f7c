"""A block during which a job's objects are not deleted: registered, renewed in the background, finished at the end."""

import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from sexton.client.api_call import ApiCall, request
from sexton.client.errors import ProtectionLost
from sexton.client.registering import RegistrationRequest
from sexton.client.renewing import DEFAULT_TTL_SECONDS, Renewals
from sexton.client.sender import SyncSender
from sexton.kernel.errors import SextonError
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Protection

log = logging.getLogger(__name__)
NOTE = "the protection of job {} stays until its time ends; the same registration continues it"
OnLost = Callable[[ProtectionLost], object]


class Protecting:
    """The result of ``client.protect``, a block. Call ``check`` between objects.

    When the block ends without an exception, the protection is finished. When an exception leaves the block, the
    protection stays until its time ends, so that the same job can be tried again. When the protection cannot be renewed
    in time, or was ended by an operator, ``check`` and the end of the block raise ``ProtectionLost``; what was copied
    since may be incomplete.
    """

    def __init__(self, client: SyncSender, request: RegistrationRequest, on_lost: OnLost | None = None) -> None:
        self._client, self._request, self._on_lost = client, request, on_lost
        self._ttl = request.ttl_seconds or DEFAULT_TTL_SECONDS
        self._over, self._lock = threading.Event(), threading.Lock()
        self._lost: ProtectionLost | None = None
        self._renewals = Renewals(self._ttl, float("-inf"))
        self._caller = threading.current_thread()
        self._pid = 0
        self.registered: Protection
        """The registered protection; ``registered.sealed.named`` lists objects that are not protected."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if copied objects may be deleted. Call it before each object, or each few."""
        if self._lost is not None:
            raise self._lost
        if reason := self._reason_lost():
            raise self._error(reason)

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
        lost = self._lost
        if lost is None and error is None and (reason := self._reason_lost()):
            lost = self._error(reason)
        if lost is not None and (error is None or isinstance(error, ProtectionLost)):
            raise lost from None
        if error is not None:
            error.add_note(NOTE.format(self._request.job) if lost is None else str(lost))
            return
        self._finish()

    def _reason_lost(self) -> str:
        """Return why this process cannot rely on the protection; empty while it can."""
        if os.getpid() != self._pid:  # nor may it finish the protection: its parent is still copying
            return "a copy of this process cannot renew it"
        return self._renewals.reason_lost(time.monotonic())

    def _finish(self) -> None:
        mine = self._request
        try:
            self._client.send(request("finish", instance=mine.instance, job=mine.job, protection=self.registered.id))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: the protection ended before the job") from e

    def _renewal(self) -> ApiCall[Protection]:
        mine = self._request
        values = {"ttl_seconds": self._ttl, "protection": self.registered.id, "at_least": True}
        return request("renew", instance=mine.instance, job=mine.job, **values)

    def _renew(self) -> None:
        """Renew until the block ends, the protection is lost, or the caller's thread has ended."""
        call, renewals = self._renewal(), self._renewals
        while self._lost is None and not self._over.wait(renewals.wait(time.monotonic())):
            if not self._caller.is_alive():
                log.error("the thread that protected %s ended inside its block; renewals stop", call.path)
                return
            began, error = time.monotonic(), None
            try:
                self._client.send(call, 0, renewals.timeout(began))
            except SextonError as e:
                error = e
                log.warning("the protection of job %s was not renewed: %s", self._request.job, e)
            except Exception as e:
                error = SextonError(f"{type(e).__name__}: {e}")
                log.exception("the protection of job %s was not renewed", self._request.job)
            if reason := renewals.record(began, error):
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

    def _error(self, reason: str) -> ProtectionLost:
        return ProtectionLost(f"the protection of job {self._request.job} is lost: {reason}")
