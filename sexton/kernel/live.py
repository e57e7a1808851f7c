"""A value that may change while a process runs."""

from collections.abc import Callable
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")
MOST_KNOWN = 1_000
"""Values whose conversions are kept; instances without settings of their own share one."""


class Live(Generic[T_co]):
    """A value that is read where it is used, never kept: call it with an instance, or for all instances without one.

    It may read the database: call it before a transaction begins, because a connection of its own could be lacking.
    """

    def __init__(self, read: Callable[[str], T_co]) -> None:
        self._read = read

    def __call__(self, instance: str = "") -> T_co:
        """Return the value as it is now."""
        return self._read(instance)

    @classmethod
    def of(cls, value: "S | Live[S]") -> "Live[S]":
        """Return the value as one that never changes, unless it is live already."""
        return value if isinstance(value, Live) else Live(lambda _: value)

    def map(self, convert: Callable[[T_co], S]) -> "Live[S]":
        """Return another value that follows from this one; it is converted again only after a change."""
        converted: dict[int, tuple[T_co, S]] = {}  # by the identity of the value, which is kept with it

        def read(instance: str) -> S:
            value = self(instance)
            known = converted.get(id(value))
            if known is None or known[0] is not value:
                if len(converted) >= MOST_KNOWN:
                    converted.clear()
                known = converted[id(value)] = (value, convert(value))
            return known[1]

        return Live(read)
