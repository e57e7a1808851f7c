"""A block in which what a job copies stays: it is registered, renewed in the background, and finished at the end."""

import ctypes
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from sexton.client import calls
from sexton.client.errors import ProtectionLost
from sexton.client.registering import RegistrationRequest
from sexton.client.renewing import AGAIN_SECONDS, DEFAULT_TTL_SECONDS, Renewals
from sexton.kernel.errors import SextonError
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Protection

if TYPE_CHECKING:
    from sexton.client.sync import Sexton

log = logging.getLogger(__name__)
KEPT = "the protection of job {} keeps what it covers until its time is over; the same registration goes on with it"
OnLost = Callable[[ProtectionLost], object]


class CopyInterrupted(BaseException):
    """Raised in the caller's thread; no ``except Exception`` of a single object's copy takes it for its own.

    The block turns it into ``ProtectionLost``, unless it comes at the very moment the block is left: then it comes out
    itself. Each block raises a kind of its own, so that it can see what became of it.
    """

    lost: ProtectionLost | None = None

    def __str__(self) -> str:
        return str(self.lost or "")


class Protecting:
    """What ``client.protect`` returns; enter it in the thread that copies.

    Where the block ends well the protection is finished. Where an exception leaves it, it stays until its time is over,
    so that the same job can be tried again. Where it cannot be renewed in time, or somebody ended it, the caller is
    stopped and the block raises ``ProtectionLost``, while the objects are still there.
    """

    def __init__(
        self, client: "Sexton", wanted: RegistrationRequest, *, interrupt: bool = True, on_lost: OnLost | None = None
    ) -> None:
        self._client, self._wanted, self._interrupt, self._on_lost = client, wanted, interrupt, on_lost
        self._ttl = wanted.ttl_seconds or DEFAULT_TTL_SECONDS
        self._over, self._lock, self._left = threading.Event(), threading.RLock(), False
        self._lost: ProtectionLost | None = None
        self._renewals = Renewals(self._ttl, float("-inf"))
        self._caller = threading.current_thread()
        self._pid = 0
        self._raised: list[CopyInterrupted] = []
        self._stopped = _kind_of(self._raised)
        self.registered: Protection
        """What came of the registration; ``registered.sealed.named`` has what is not kept."""

    def check(self) -> None:
        """Raise ``ProtectionLost`` if what is copied may be gone: ask before each object, or each few."""
        why = "a copy of this process cannot renew it" if os.getpid() != self._pid else ""
        if self._lost is not None:
            raise self._lost
        if why := why or self._renewals.lost(time.monotonic()):
            raise self._error(why)

    def __enter__(self) -> "Protecting":
        self.registered = self._client.register(self._wanted)
        began = time.monotonic()  # chunks may have taken long, and the same job may have been there before
        self._client.send(self._renewal())
        self._renewals, self._pid = Renewals(self._ttl, began), os.getpid()
        self._caller = threading.current_thread()
        for work in (self._renew, self._watch):
            threading.Thread(target=work, name=f"renews {self._wanted.job}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                self._leave()
            except CopyInterrupted:  # it came while the block was being left
                self._leave()
        finally:  # whatever else comes between, nothing is renewed for a block that was left
            self._left = True
            self._over.set()
            self._raised.clear()
        lost = self._lost
        if lost is None and error is None and (why := self._renewals.lost(time.monotonic())):
            lost = self._error(why)
        if lost is not None and (error is None or isinstance(error, ProtectionLost | CopyInterrupted)):
            raise lost from None
        if error is not None:
            error.add_note(KEPT.format(self._wanted.job) if lost is None else str(lost))
            return
        try:
            self._client.send(calls.finish(self._wanted.instance, self._wanted.job, self.registered.id))
        except ProtectionNotFound as e:
            raise ProtectionLost(f"{e}: it ended before the job did") from e

    def _leave(self) -> None:
        with self._lock:  # from here on nobody is interrupted
            self._left = True
            if self._interrupt:
                _interrupt(self._caller, None)  # it may not have come yet

    def _renewal(self) -> calls.ApiCall[Protection]:
        its = self.registered.id
        return calls.renew(self._wanted.instance, self._wanted.job, self._ttl, its, at_least=True)

    def _renew(self) -> None:
        """Renew until the block ends, the protection is lost, or nobody is in the block any more."""
        call, renewals = self._renewal(), self._renewals
        while self._lost is None and not self._over.wait(renewals.wait(time.monotonic())):
            if not self._caller.is_alive():
                log.error("who protected %s has ended without leaving its block; it is renewed no more", call.path)
                return
            began, error = time.monotonic(), None
            try:
                self._client.send(call, 0, renewals.timeout(began))
            except SextonError as e:
                error = e
                log.warning("the protection of job %s was not renewed: %s", self._wanted.job, e)
            except Exception as e:
                error = SextonError(f"{type(e).__name__}: {e}")
                log.exception("the protection of job %s was not renewed", self._wanted.job)
            if why := renewals.told(began, error):
                self._stop(why)

    def _watch(self) -> None:
        """Stop the caller in time, whatever became of renewing; again and again, until the block has ended."""
        renewals = self._renewals
        while not self._over.wait(renewals.left(time.monotonic()) if self._lost is None else AGAIN_SECONDS):
            if self._lost is not None:
                with self._lock:
                    if self._came_out():
                        self._left = True
                        self._over.set()
                    elif self._interrupt and not self._left:
                        _interrupt(self._caller, self._stopped)
            elif why := renewals.lost(time.monotonic()):
                self._stop(why)

    def _stop(self, why: str) -> None:
        with self._lock:
            if self._left or self._lost is not None:
                return
            self._lost = self._stopped.lost = self._error(why)
            log.error("%s", self._lost)
            if self._interrupt:
                _interrupt(self._caller, self._stopped)
        if self._on_lost is not None:
            self._on_lost(self._lost)

    def _came_out(self) -> bool:
        """Tell whether a stop came as the block's end began, before anything there could take it: it is left then."""
        raised, self._raised[:] = list(self._raised), []
        frames = (f for one in raised for f, _ in traceback.walk_tb(one.__traceback__))
        return any(f.f_code is Protecting.__exit__.__code__ and f.f_locals.get("self") is self for f in frames)

    def _error(self, why: str) -> ProtectionLost:
        return ProtectionLost(f"the protection of job {self._wanted.job} is lost: {why}")


def _kind_of(raised: list[CopyInterrupted]) -> type[CopyInterrupted]:
    """Return a kind of stop that remembers what of it was raised, until somebody has looked."""

    class Its(CopyInterrupted):
        def __init__(self) -> None:
            super().__init__()
            raised.append(self)

    Its.__qualname__ = Its.__name__ = CopyInterrupted.__name__
    return Its


def _interrupt(thread: threading.Thread, error: type[BaseException] | None) -> None:
    """Raise an error in a thread at its next step; with None take back one that has not come yet."""
    if thread.is_alive() and thread.ident is not None:
        given = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), given)
