"""Errors that the replica stores raise."""

from sexton.kernel.errors import Conflict, NotFound


class UnknownTablet(NotFound):
    """The tablet has no replica, or none on that backend."""

    name = "NOT_FOUND"

    def __init__(self, tablet: str, backend: str = "") -> None:
        where = f" on backend {backend}" if backend else ""
        super().__init__(f"there is no replica of tablet {tablet}{where}; see: sexton replica list")


class UnknownBackend(NotFound):
    """The backend has no replica, and has never reported."""

    name = "NOT_FOUND"

    def __init__(self, backend: str) -> None:
        super().__init__(f"there is no backend {backend}; see: sexton replica backends")


class BootTooHigh(Conflict):
    """A report's boot or sequence is above the ceiling, or its boot is too far above the last one."""


class LastCopy(Conflict):
    """The request would leave a tablet without a healthy replica."""
