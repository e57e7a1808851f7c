"""The error document of the HTTP API."""

from sexton.kernel.message import Message


class ProblemDocument(Message):
    """An RFC 9457 problem document. ``code`` is for programs; ``number`` is MatrixOne's error number, if it has one."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    number: int | None = None
    first: int | None = None
    """For TOO_OLD: the first record or entry that still exists."""
