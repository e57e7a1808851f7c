"""What a check needs: the live side, a way to compare it with what vaults list, and where findings are kept."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sexton.check.model import (
    CheckOrder,
    CheckReport,
    Discrepancy,
    Evidence,
    Finding,
    Moment,
    Run,
    RunVerdict,
    Type,
)
from sexton.kernel.errors import SextonError
from sexton.marks.live import LiveEntry, Part
from sexton.storage.model import VaultSpec

Heartbeat = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class NoLiveSide(SextonError):
    """Nobody says what is live: nothing can be called lost, and nothing an orphan."""


class UnknownCheck(SextonError):
    """There is no check of that number."""


class Live(Protocol):
    """The live side: what should be there, and what may. Everything may raise ``OwnerSilent``."""

    def moment(self, instance: str) -> AbstractContextManager[Moment]:
        """Fix the moment at which it is read, for as long as the context lasts; ``NoLiveSide``."""
        ...

    def check(self, instance: str) -> None:
        """Raise ``NoLiveSide`` where nobody says what is live: listing would be for nothing."""
        ...

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield pages of what one part names."""
        ...

    def named(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return what these records (``KIND/ID``) name now."""
        ...

    def pattern(self, instance: str) -> str:
        """Return the regular expression that every key of the owner's files matches; empty: nobody knows.

        Its group ``record``, where it has one, is the id of the record that should name the file.
        """
        ...


class Compare(Protocol):
    """One way to compare objects with records: in this process, or on Spark."""

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List the vaults, then read the live side, and tell what does not agree; may be repeated."""
        ...


class CheckRuns(Protocol):
    """Runs and their findings."""

    def now(self) -> int:
        """Return the database's clock, ms since 1970."""
        ...

    def begin(self, instance: str, run: str, by: str = "") -> Run:
        """Begin a run under the name of its workflow run; repeating it returns the same run."""
        ...

    def progress(self, run: Run) -> Any:
        """Return what ``went_on`` stored last; None: nothing yet."""
        ...

    def running(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names of workflow runs are of checks that have not ended."""
        ...

    def went_on(self, run: Run, progress: Any) -> None:
        """Store what of the run is done, so that another attempt need not do it again; small JSON."""
        ...

    def saw(self, run: Run, found: Sequence[Discrepancy]) -> None:
        """Note what a run sees; the same again changes nothing."""
        ...

    def seen_in(self, run: Run, types: Collection[Type], after: int = 0, limit: int = 1_000) -> Sequence[Finding]:
        """Return what the run saw of these types, in the order of their numbers, from one on."""
        ...

    def confirm(self, run: Run, findings: Collection[int]) -> int:
        """Confirm what a second look found as the first did; return how many."""
        ...

    def refute(self, run: Run, findings: Collection[int]) -> int:
        """Call gone what a second look did not find; return how many."""
        ...

    def conclude(self, run: Run, evidence: Evidence) -> RunVerdict:
        """End a run and draw the conclusions that its evidence allows."""
        ...

    def report(self, run: int) -> CheckReport:
        """Return a run and what stands open after it."""
        ...

    def last(self, instance: str) -> Run | None:
        """Return the newest run that has ended."""
        ...
