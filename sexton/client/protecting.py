"""A block during which a job's objects are not deleted: registered, renewed in the background, finished at the end."""

import ctypes
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType

from sexton.client import calls
from sexton.client.api_call import ApiCall
from sexton.client.errors import ProtectionLost
from sexton.client.registering import RegistrationRequest
from sexton.client.renewing import AGAIN_SECONDS, DEFAULT_TTL_SECONDS, Renewals
from sexton.client.sender import SyncSender
from sexton.kernel.errors import SextonError
from sexton.protocol.protections import Protection, ProtectionNotFound

log = logging.getLogger(__name__)
NOTE = "the protection of job {} stays until its time ends; the same registration continues it"
OnLost = Callable[[ProtectionLost], object]


class CopyInterrupted(BaseException):
    """Raised in the caller's thread. It is no ``Exception``, so that no handler of a single object's copy catches it.

    The block turns it into ``ProtectionLost``. If it is raised at the very moment at which the block is left, it leaves
    the block itself. Each block has a subclass of its own, so that it can follow each instance.
    """

    lost: ProtectionLost | None = None

    def __str__(self) -> str:
        return str(self.lost or "")


class Protecting:
    """The result of ``client.protect``; enter it in the thread that copies.

    When the block ends without an exception, the protection is finished. When an exception leaves the block, the
    protection stays until its time ends, so that the same job can be tried again. When the protection cannot be renewed
    in time, or was ended by an operator, the caller is interrupted and the block raises ``ProtectionLost``, while the
    objects still exist.
    """

    def __init__(
        self, client: SyncSender, request: RegistrationRequest, *, interrupt: bool = True, on_lost: OnLost | None = None
    ) -> None:
        self._client, self._request, self._interrupt, self._on_lost = client, request, interrupt, on_lost
        self._ttl = request.ttl_seconds or DEFAULT_TTL_SECONDS
        self._over, self._lock, self._left = threading.Event(), threading.RLock(), False
        self._lost: ProtectionLost | None = None
        self._renewals = Renewals(self._ttl, float("-inf"))
        self._caller = threading.current_thread()
        self._pid = 0
        self._raised: list[CopyInterrupted] = []
        self._interruption = _recording_subclass(self._raised)
        self.registered: Protection
        """The registered protection; ``registered.sealed.named`` lists objects that are not protected."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if copied objects may be deleted. Call it before each object, or each few."""
        if self._lost is not None:
            raise self._lost
        forked = "a copy of this process cannot renew it" if os.getpid() != self._pid else ""
        if reason := forked or self._renewals.reason_lost(time.monotonic()):
            raise self._error(reason)

    def __enter__(self) -> "Protecting":
        self.registered = self._client.send_all(self._request.steps())
        began = time.monotonic()  # registering chunks may take long, and the protection may be that of an earlier try
        self._client.send(self._renewal())
        self._renewals, self._pid = Renewals(self._ttl, began), os.getpid()
        self._caller = threading.current_thread()
        for work in (self._renew, self._watch):
            threading.Thread(target=work, name=f"renews {self._request.job}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                self._leave()
            except CopyInterrupted:  # raised while the block was being left
                self._leave()
        finally:  # even if another exception is raised in between, a block that was left is not renewed
            self._left = True
            self._over.set()
            self._raised.clear()
        lost = self._lost
        if lost is None and error is None and (reason := self._renewals.reason_lost(time.monotonic())):
            lost = self._error(reason)
        if lost is not None and (error is None or isinstance(error, ProtectionLost | CopyInterrupted)):
            raise lost from None
        if error is not None:
            error.add_note(NOTE.format(self._request.job) if lost is None else str(lost))
            return
        self._finish()

    def _finish(self) -> None:
        request = self._request
        try:
            self._client.send(calls.finish_registration(request.instance, request.job, self.registered.id))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: the protection ended before the job") from e

    def _leave(self) -> None:
        with self._lock:  # after this the caller is not interrupted
            self._left = True
            if self._interrupt:
                _interrupt(self._caller, None)  # withdraw an interruption that was not raised yet

    def _renewal(self) -> ApiCall[Protection]:
        return calls.renew_registration(self._request.instance, self._request.job, self.registered.id, self._ttl)

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
        """Interrupt the caller in time even if a renewal hangs; repeat it until the block has ended."""
        renewals = self._renewals
        while not self._over.wait(renewals.left(time.monotonic()) if self._lost is None else AGAIN_SECONDS):
            if self._lost is not None:
                self._interrupt_again()
            elif reason := renewals.reason_lost(time.monotonic()):
                self._lose(reason)

    def _interrupt_again(self) -> None:
        with self._lock:
            if self._raised_at_the_end():
                self._left = True
                self._over.set()
            elif self._interrupt and not self._left:
                _interrupt(self._caller, self._interruption)

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._left or self._lost is not None:
                return
            self._lost = self._interruption.lost = self._error(reason)
            log.error("%s", self._lost)
            if self._interrupt:
                _interrupt(self._caller, self._interruption)
        if self._on_lost is not None:
            self._on_lost(self._lost)

    def _raised_at_the_end(self) -> bool:
        """Return whether an interruption left the block as ``__exit__`` began, before its handler could catch it."""
        raised, self._raised[:] = list(self._raised), []
        frames = (frame for error in raised for frame, _ in traceback.walk_tb(error.__traceback__))
        return any(
            frame.f_code is Protecting.__exit__.__code__ and frame.f_locals.get("self") is self for frame in frames
        )

    def _error(self, reason: str) -> ProtectionLost:
        return ProtectionLost(f"the protection of job {self._request.job} is lost: {reason}")


def _recording_subclass(raised: list[CopyInterrupted]) -> type[CopyInterrupted]:
    """Return a subclass whose instances are appended to ``raised``."""

    class Recorded(CopyInterrupted):
        def __init__(self) -> None:
            super().__init__()
            raised.append(self)

    Recorded.__qualname__ = Recorded.__name__ = CopyInterrupted.__name__
    return Recorded


def _interrupt(thread: threading.Thread, error: type[BaseException] | None) -> None:
    """Raise an error in a thread at its next step in Python; None withdraws an error that was not raised yet."""
    if thread.is_alive() and thread.ident is not None:
        exception = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), exception)
