"""The ports of a sweep: a node's meta store and the source of granted cuts; and the errors that they raise."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from sexton.kernel.errors import SextonError
from sexton.replication.agent.model import GrantedCut, Removed


class NoStore(SextonError):
    """There is no meta store in the data directory: perhaps its disk is not mounted. Nothing counts as deleted."""

    passes = True


class OtherBackend(SextonError):
    """The data directory, or an order, belongs to another backend."""


class StoreBusy(SextonError):
    """The node keeps its meta store locked for too long."""

    passes = True


class StoreFault(SextonError):
    """The meta store cannot be read or written at one place; other places may be intact."""

    passes = True


class MetaStore(Protocol):
    """A node's meta store, which the node itself also writes. Keys are ordered by their bytes."""

    def proven(self) -> AbstractContextManager[int]:
        """Open the data directory and prove that it is this backend's and that this store is the one in it.

        The context manager returns the directory's file descriptor.

        Raises:
            NoStore: there is no store, or another file than before.
            OtherBackend: it belongs to another backend.
        """
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return a value; a long one is cut to ``layout.MAX_VALUE_BYTES`` + 1 bytes."""
        ...

    def scan(self, begin: bytes, end: bytes, count: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
        """Yield pages of at most ``count`` keys from ``begin`` to before ``end``, with values as in ``get``."""
        ...

    def remove(self, keys: Sequence[bytes]) -> None:
        """Delete keys: all or none, durably. A key that does not exist counts as deleted."""
        ...

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Write entries: all or none, durably. For storage nodes, which create binlogs."""
        ...


class ApiSilent(SextonError):
    """Sexton's API gives no valid answer; cuts wait there until it does."""

    passes = True


class ApiRefused(SextonError):
    """Sexton's API refuses the request."""


class GrantedCutPage(NamedTuple):
    """A page of cuts in the order of their uids. ``next``: the cursor of the next page; empty: this was the last."""

    cuts: Sequence[GrantedCut]
    next: str = ""
    refused: Sequence[str] = ()
    """Items that could not be read as a cut, in words; nothing is deleted for them."""


class CutSource(Protocol):
    """Grants cuts to this backend."""

    def page(self, after: str) -> GrantedCutPage:
        """Return cuts of tablets whose uids sort after ``after``. Raises ``ApiSilent``, ``ApiRefused``."""
        ...

    def acknowledge(self, done: Sequence[Removed]) -> None:
        """Report what is deleted; repeatable. Raises ``ApiSilent``, ``ApiRefused``."""
        ...
