"""The source of granted cuts of a sweep, and the errors that it and a node's meta store raise."""

from collections.abc import Sequence
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
