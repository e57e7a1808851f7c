"""A lease as a value."""

from sexton.kernel.message import Message


class Lease(Message):
    """A holder's claim to be the only one that works on an instance."""

    instance: str
    job: str
    owner: str
    epoch: int
