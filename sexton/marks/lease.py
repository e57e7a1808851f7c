"""A lease as a value, and the errors that make a round stop or wait."""

from enum import StrEnum

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message


class LeaseState(StrEnum):
    """The state of a lease's row."""

    IDLE = "IDLE"
    BUSY = "BUSY"


class Lease(Message):
    """The right of one run to work on an instance alone; every acquisition raises ``epoch``."""

    instance: str
    job: str
    owner: str
    epoch: int


class LeaseBusy(SextonError):
    """Another run has the lease of this instance; it will release it, or the lease will expire."""

    passes = True


class NoFreeSlot(SextonError):
    """``recycle_concurrency`` instances are being worked on; a slot becomes free when one of them ends."""

    passes = True


class LeaseLost(SextonError):
    """The lease has expired or belongs to a newer epoch; stop before the next claim, page or removal."""
