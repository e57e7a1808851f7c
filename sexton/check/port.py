"""The ports of a check: the live side, a way to compare it with vault listings, and the store of findings."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sexton.check.model import (
    CheckOrder,
    CheckReport,
    Discrepancy,
    Evidence,
    Finding,
    FindingType,
    Moment,
    Run,
    RunVerdict,
)
from sexton.kernel.errors import NotFound, SextonError
from sexton.marks.live import LiveEntry, Part
from sexton.storage.model import VaultSpec

Heartbeat = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class TooManyObjects(SextonError):
    """One process lists more objects than the order allows; Spark may compare them."""


class UnknownCheck(NotFound):
    """No check run has this id."""


class UnknownFinding(NotFound):
    """No finding has this number, or it is not open any longer."""


class LiveSource(Protocol):
    """The live side: the objects that must exist, and those that may. Every method may raise ``OwnerSilent``."""

    def snapshot(self, instance: str, *, divided: bool = True) -> AbstractContextManager[Moment]:
        """Open a snapshot in which the live side is read, for as long as the context lasts; ``NoLiveSide``.

        Args:
            instance: the instance.
            divided: into parts that several read side by side; to find them, the owner's records are read once more.
        """
        ...

    def as_of(self, instance: str) -> int | None:
        """Return as of when the live side is true, ms since 1970; None: at any moment.

        Raises:
            NoLiveSide: no source names the live objects, so a listing would be useless.
            OwnerSilent: it is a copy that is too old, or that does not say how old it is.
        """
        ...

    def wait_for_refresh(self, instance: str, listed_at: int, heartbeat: Heartbeat) -> None:
        """Wait until a copy was refreshed after the listing ended, as long as it is not too old."""
        ...

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the entries of one part, in pages."""
        ...

    def entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the entries that these records (``KIND/ID``) name now."""
        ...

    def pattern(self, instance: str) -> str:
        """Return the regular expression that every key of the owner's files matches; empty: unknown.

        Its group ``record``, if it has one, is the id of the record that should name the file.
        """
        ...


class Compare(Protocol):
    """One way to compare objects with records: in this process, or on Spark."""

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List the vaults, then read the live side, and store each disagreement as a finding; may be repeated."""
        ...


class CheckRuns(Protocol):
    """The store of runs and their findings."""

    def now(self) -> int:
        """Return the time of the database's clock, ms since 1970."""
        ...

    def begin(self, instance: str, run: str, by: str = "") -> Run:
        """Begin a run under the id of its workflow run; a repeated call returns the same run."""
        ...

    def stored(self, run: Run) -> Run:
        """Return a run as its row says; ``UnknownCheck``: no row has its number, instance and workflow run."""
        ...

    def store_evidence(self, run: Run, evidence: Evidence) -> None:
        """Store what a running check has seen so far."""
        ...

    def progress(self, run: Run) -> Any:
        """Return what ``went_on`` stored last; None: nothing is stored."""
        ...

    def running(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these workflow runs belong to checks that have not ended."""
        ...

    def store_progress(self, run: Run, progress: Any) -> None:
        """Store the progress of a run as small JSON, so that another attempt need not repeat finished work."""
        ...

    def store_findings(self, run: Run, discrepancies: Sequence[Discrepancy]) -> None:
        """Store disagreements that a run found; storing the same ones again changes nothing."""
        ...

    def unresolved(
        self, run: Run, types: Collection[FindingType], after: int = 0, limit: int = 1_000
    ) -> Sequence[Finding]:
        """Return findings of these types that the run saw, unless GONE or REPAIRED, with ids above ``after``."""
        ...

    def confirm(self, run: Run, findings: Collection[int]) -> int:
        """Confirm findings for which the second check found the same; return how many."""
        ...

    def refute(self, run: Run, findings: Collection[int]) -> int:
        """Set findings to GONE that the second check did not find; return how many."""
        ...

    def conclude(self, run: Run, evidence: Evidence) -> RunVerdict:
        """End a run, and change its findings as far as its evidence allows."""
        ...

    def forget_old(self, instance: str) -> None:
        """Delete runs that ended long ago, and the findings that were gone by then."""
        ...

    def report(self, run: int) -> CheckReport:
        """Return a run, with the counts of the findings that are open."""
        ...

    def last_ended(self, instance: str) -> Run | None:
        """Return the newest run that has ended; None: there is none."""
        ...
