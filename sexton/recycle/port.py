"""What a round needs from the stores, as Protocols, so that its steps run over any of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from sexton.errors import SextonError
from sexton.marks.model import Claimed, Done, DueMark, File, Hand, Page, Problem, Ref, Verdict
from sexton.recycle.model import (
    AdoptOrder,
    CloseOrder,
    Cursor,
    Due,
    Opened,
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


class Marks(Protocol):
    """The life of marks, as rows. Whatever writes for a ``Hand`` raises ``LeaseLost`` when a newer one works."""

    def open_batch(self, order: RangeOrder, attempt: int) -> tuple[Hand, RangeReceipt | None]:
        """Open (or open again) the batch of a range; a receipt means an earlier attempt finished it."""
        ...

    def open_late_batch(self, order: AdoptOrder, attempt: int) -> Hand:
        """Open the batch under which this round lists swept prefixes once more."""
        ...

    def claimed_in(self, hand: Hand) -> int:
        """Return how many marks this batch has claimed, over all attempts."""
        ...

    def close_batch(self, hand: Hand, receipt: RangeReceipt) -> None:
        """Store the receipt; a repeated order is answered with it."""
        ...

    def due(self, instance: str, kind: str, cutoff: int, after: Cursor, limit: int) -> Sequence[DueMark]:
        """Return the next due marks after the cursor, in the order they fell due."""
        ...

    def store_files(self, hand: Hand, files: Sequence[File]) -> None:
        """Add resolved files to the batch."""
        ...

    def held(self, hand: Hand, refs: Sequence[Ref]) -> Mapping[Ref, str]:
        """Return which claimed marks somebody keeps now, by the files found at a last look, and who keeps them."""
        ...

    def done(self, hand: Hand, kind: str) -> Done:
        """Return what of a kind went in the hand's round so far."""
        ...

    def drop_files(self, hand: Hand, refs: Iterable[Ref]) -> None:
        """Forget resolved files of marks that were not claimed, or that are listed anew."""
        ...

    def quarantine(self, hand: Hand, problems: Sequence[Problem]) -> None:
        """Set marks aside with a reason, if they still are as they were seen; their state does not change."""
        ...

    def retry_failed(self, instance: str) -> None:
        """Bring back, once a day, claimed marks set aside for failed deletes."""
        ...

    def claim(self, hand: Hand, refs: Sequence[Ref], cutoff: int) -> Claimed:
        """Claim at most ``CHUNK_MARKS`` marks under the guard, re-checking everything; drop the files of the rest."""
        ...

    def pages(self, hand: Hand, after: int = 0) -> Sequence[Page]:
        """Return the next undone files of claimed marks of the batch, a few pages of at most 1,000 keys each."""
        ...

    def record(self, hand: Hand, page: Page, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one statement; they only move towards done."""
        ...

    def claimed_refs(self, hand: Hand, after: Ref, limit: int) -> Sequence[Ref]:
        """Return claimed, unquarantined marks of the batch in order of kind and id."""
        ...

    def settle(self, hand: Hand, refs: Sequence[Ref], upload_grace_seconds: int) -> Mapping[Verdict, int]:
        """Remove the records whose files are gone; count the failures; leave the rest claimed."""
        ...

    def unfinished_batches(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        ...

    def end_batch(self, hand: Hand) -> None:
        """Close a batch that was taken over; nobody waits for its receipt."""
        ...

    def take_over(self, batch: int, order: AdoptOrder, attempt: int) -> Hand:
        """Make an earlier round's batch ours; what failed is tried again."""
        ...

    def take_late(self, hand: Hand, after: Ref, limit: int) -> Sequence[DueMark]:
        """Bring swept prefix marks whose upload grace has passed into this batch, to be listed once more."""
        ...


class Rounds(Protocol):
    """Plans, rounds and reports, as rows."""

    def open(self, instance: str, run_id: str, plan: int | None, policy: Policy) -> Opened:
        """Acquire the lease and open the round of this run; repeating it returns the same round."""
        ...

    def abandon(self, run_id: str) -> None:
        """End a round that was called off before it had a lease."""
        ...

    def release(self, opened: Opened, why: str) -> None:
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


class Turns(Protocol):
    """Whose turn it is."""

    def due(self) -> Due:
        """Return the instances whose round should start now, and how many may."""
        ...
