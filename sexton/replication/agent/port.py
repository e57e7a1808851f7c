"""What sweeping asks of a node's meta store and of whoever grants cuts, and what they may refuse."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from sexton.kernel.errors import SextonError
from sexton.replication.agent.model import GrantedCut, Removed


class NoStore(SextonError):
    """There is no meta store in the data directory: perhaps its disk is not mounted. Nothing counts as removed."""

    passes = True


class OtherBackend(SextonError):
    """The data directory, or an order, is another backend's."""


class StoreBusy(SextonError):
    """The node keeps its meta store locked for long."""

    passes = True


class StoreFault(SextonError):
    """The meta store cannot be read or written at some place; others may be well."""

    passes = True


class MetaStore(Protocol):
    """A node's meta store, which the node writes at the same time. Keys are ordered by their bytes."""

    def proven(self) -> AbstractContextManager[int]:
        """Give the data directory, open, once it is certain whose it is and that this store is the one in it.

        Raises:
            NoStore: there is none, or another file than before.
            OtherBackend: it is another backend's.
        """
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return a value; of a long one only its beginning, longer than ``layout.MOST_VALUE``."""
        ...

    def scan(self, begin: bytes, end: bytes, count: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
        """Yield keys from ``begin`` to before ``end`` with values as of ``get``, so many at a time, when asked."""
        ...

    def remove(self, keys: Sequence[bytes]) -> None:
        """Remove keys: all or none, durably. Those that are not there are gone."""
        ...

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Write: all or none, durably. For who makes binlogs."""
        ...


class ApiSilent(SextonError):
    """Sexton's API does not answer, or not as it does; cuts wait there until it does."""

    passes = True


class ApiRefused(SextonError):
    """Sexton's API refuses."""


class GrantedCutPage(NamedTuple):
    """Some cuts in the order of their uids. ``next``: ask for those after it; empty: these were the last."""

    cuts: Sequence[GrantedCut]
    next: str = ""
    refused: Sequence[str] = ()
    """What could not be read as a cut, in words; nothing is removed for it."""


class CutSource(Protocol):
    """Who grants cuts to this backend."""

    def page(self, after: str) -> GrantedCutPage:
        """Return cuts of tablets whose uids come after one. Raises ``ApiSilent``, ``ApiRefused``."""
        ...

    def acknowledge(self, done: Sequence[Removed]) -> None:
        """Say what is gone. Saying it twice does no harm. Raises ``ApiSilent``, ``ApiRefused``."""
        ...
