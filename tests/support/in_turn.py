"""Deletes without a thread beside the claim, so that an example of a random history is reproducible."""

from types import TracebackType
from typing import Self

from sexton.marks.model import WriteToken
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete import ThreadDeleter, ThreadDeletion


class InTurnDeletion(ThreadDeletion):
    """A deletion that works in calls of ``wait_for``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._stopped = True
        self._store_in_flight()

    def wait_for(self, to: int) -> None:
        while not self.has_tried(to) or self._in_flight:
            self._step()
            self._active_lease.keep_alive()

    def finish(self) -> None:
        self.wait_for(self._claimed_to)


class InTurnDeleter(ThreadDeleter):
    """Its deletions take turns with the claim, in its thread."""

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> InTurnDeletion:
        return InTurnDeletion(self, token, active_lease, after)
