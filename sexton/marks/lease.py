"""A lease as a value."""

from enum import StrEnum

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
