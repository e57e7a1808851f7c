"""What a round needs from the stores, as Protocols, so that its steps run over any of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol

from sexton.kernel.errors import SextonError
from sexton.marks.model import (
    Claimed,
    ClaimFacts,
    DeletedSoFar,
    DueMark,
    File,
    FilePage,
    Reason,
    Ref,
    Settlement,
    Unresolvable,
    WriteToken,
)
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.model import (
    AdoptOrder,
    CloseOrder,
    Cursor,
    DueInstances,
    OpenedRound,
    Plan,
    Policy,
    RangeOrder,
    RangeReceipt,
    RoundReport,
)
from sexton.storage.model import KeyResult


class PlanRefused(SextonError):
    """The plan does not exist, was applied, or is another instance's."""


class RoundEnded(SextonError):
    """The round of this run has ended and was counted; it does not begin again."""


class Standings(Protocol):
    """A claimed mark and what is to become of it; ``absorbed`` marks are removed with it."""

    ref: Ref
    absorbed: list[Ref]

    @property
    def verdict(self) -> Settlement:
        """Return what is to become of it."""
        ...


class Marks(Protocol):
    """The life of marks, as rows. Whatever writes for a ``WriteToken`` raises ``LeaseLost`` when a newer one works."""

    def open_batch(self, order: RangeOrder, attempt: int) -> tuple[WriteToken, RangeReceipt | None]:
        """Open (or open again) the batch of a range; a receipt means an earlier attempt finished it."""
        ...

    def open_late_batch(self, order: AdoptOrder, attempt: int) -> WriteToken:
        """Open the batch under which this round lists swept prefixes once more."""
        ...

    def claimed_in(self, token: WriteToken) -> int:
        """Return how many marks this batch has claimed, over all attempts."""
        ...

    def close_batch(self, token: WriteToken, receipt: RangeReceipt) -> None:
        """Store the receipt; a repeated order is answered with it."""
        ...

    def due(self, instance: str, kind: str, cutoff: int, after: Cursor, limit: int) -> Sequence[DueMark]:
        """Return the next due marks after the cursor, in the order they fell due."""
        ...

    def store_files(self, token: WriteToken, files: Sequence[File], beyond: int = 0) -> int:
        """Add resolved files to the batch, numbered beyond a number; return the number of the last one."""
        ...

    def last_file(self, token: WriteToken) -> int:
        """Return the number of the last file that is stored in the batch."""
        ...

    def held(self, token: WriteToken, refs: Sequence[Ref], above: Mapping[Ref, Set[Ref]]) -> Mapping[Ref, str]:
        """Return which marks somebody keeps now, by the files that are stored for them so far, and who keeps them."""
        ...

    def done(self, token: WriteToken, kind: str) -> DeletedSoFar:
        """Return what of a kind went in the hand's round so far."""
        ...

    def drop_files(self, token: WriteToken, refs: Iterable[Ref]) -> None:
        """Forget resolved files of marks that were not claimed, or that are listed anew."""
        ...

    def quarantine(self, token: WriteToken, problems: Sequence[Unresolvable]) -> None:
        """Set marks aside with a reason, if they still are as they were seen; their state does not change."""
        ...

    def retry_failed(self, instance: str) -> None:
        """Bring back, once a day, claimed marks set aside for failed deletes."""
        ...

    def claim(
        self,
        token: WriteToken,
        refs: Sequence[Ref],
        cutoff: int,
        terms: Mapping[Ref, ClaimFacts],
        allowance: int | None,
        beyond: int | None,
    ) -> Claimed:
        """Claim at most ``CHUNK_MARKS`` marks under the guard, re-checking everything; drop the files of the rest.

        ``beyond``: a number that all their stored files are above.
        """
        ...

    def fence(self, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Fence marks; return those that are fenced now. What an owner's transaction holds this moment is left out."""
        ...

    def unfence(self, token: WriteToken, kept: Mapping[Ref, str]) -> None:
        """Give fenced marks back to their owner, each with the reason."""
        ...

    def below_counts(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, int]:
        """Return how many marks name each of these as their parent, where any does."""
        ...

    def below(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, Sequence[DueMark]]:
        """Return the marks that name each of these as their parent."""
        ...

    def set_aside_for_owner(self, instance: str) -> Iterator[Sequence[DueMark]]:
        """Yield marks that only their owner can free, some thousands at a time, so that it is asked whether it has."""
        ...

    def free(self, instance: str, refs: Collection[Ref]) -> None:
        """Bring back marks whose owner has mended the cause; claimed ones are looked at once more in this round."""
        ...

    def release_fenced(self, instance: str) -> None:
        """Give back what a round that died had fenced; this one fences anew what is due."""
        ...

    def take_back(self, instance: str, kinds: Mapping[str, Collection[str]], cutoffs: Mapping[str, int]) -> None:
        """Remove marks that were made below a parent that is not due (any more): a retention was raised."""
        ...

    def note_lacking(self, token: WriteToken, lacking: Mapping[Ref, Reason]) -> None:
        """Say of claimed marks that not all of their files can be named."""
        ...

    def pages(self, token: WriteToken, after: int, to: int) -> Sequence[FilePage]:
        """Return the next undone files of claimed marks of the batch, by their numbers after one up to another.

        A few pages of at most 1,000 keys each.
        """
        ...

    def tried_between(self, token: WriteToken, after: int, to: int) -> int:
        """Return how many of the batch's files after one up to another have an outcome."""
        ...

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one statement; they only move towards done."""
        ...

    def claimed_refs(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Return claimed, unquarantined marks of the batch in order of kind and id."""
        ...

    def outcomes(self, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Sequence[AuditRow]]:
        """Yield what became of the files of marks in this batch, some thousands at a time, for the audit."""
        ...

    def outcomes_between(self, token: WriteToken, after: int, to: int) -> Iterator[Sequence[AuditRow]]:
        """Yield what became of the batch's files, by their numbers after one up to another."""
        ...

    def standings(self, token: WriteToken, refs: Sequence[Ref]) -> Sequence[Standings]:
        """Return what is to become of claimed marks, by the outcomes stored so far; nobody else writes them."""
        ...

    def settle(
        self, token: WriteToken, standings: Sequence[Any], upload_grace_seconds: int
    ) -> Mapping[Settlement, int]:
        """Remove the records whose files are gone; count the failures; leave the rest claimed."""
        ...

    def unfinished_batches(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        ...

    def end_batch(self, token: WriteToken) -> None:
        """Close a batch that was taken over; nobody waits for its receipt."""
        ...

    def take_over(self, batch: int, order: AdoptOrder, attempt: int) -> WriteToken:
        """Make an earlier round's batch ours; what failed is tried again."""
        ...

    def take_late(self, token: WriteToken, after: Ref, limit: int) -> Sequence[DueMark]:
        """Bring swept prefix marks whose upload grace has passed into this batch, to be listed once more."""
        ...


class RoundStorePort(Protocol):
    """Plans, rounds and reports, as rows."""

    def open(self, instance: str, run_id: str, plan: int | None, policy: Policy, by: str) -> OpenedRound:
        """Acquire the lease and open the round of this run; repeating it returns the same round."""
        ...

    def abandon(self, run_id: str, why: str = "cancelled") -> None:
        """End a round that was called off before it had a lease."""
        ...

    def release(self, opened: OpenedRound, why: str) -> None:
        """Give the lease back while the round waits (paused, backing off), and say why."""
        ...

    def plan(self, instance: str, policy: Policy, by: str) -> Plan:
        """Fix cutoffs and counts and store them."""
        ...

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan."""
        ...

    def close(self, order: CloseOrder) -> RoundReport:
        """End the round, free the lease and store the report."""
        ...


class InstanceSchedulePort(Protocol):
    """Whose turn it is."""

    def due(self) -> DueInstances:
        """Return the instances whose round should start now, and how many may."""
        ...
