"""Define what the steps need from their stores. Every write raises ``LeaseLost`` if its token is not the latest."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sexton.marks.keepers import Kept
from sexton.marks.model import (
    Candidate,
    ClaimedMark,
    ClaimRequest,
    ClaimResult,
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
from sexton.recycle.pipeline.model import AdoptOrder, Cursor, RangeOrder, RangeReceipt
from sexton.storage.model import ClaimId, KeyResult


class Batches(Protocol):
    """The rows under which ranges are worked on."""

    def open(self, order: RangeOrder, attempt: int) -> tuple[WriteToken, RangeReceipt | None]:
        """Open (or open again) the batch of a range; a receipt means that an earlier attempt finished it."""
        ...

    def open_second_pass(self, order: AdoptOrder, attempt: int) -> WriteToken:
        """Open the batch of this round's second passes."""
        ...

    def record_requests(self, token: WriteToken) -> None:
        """Record that a request of the batch may be on its way for which nobody waits."""
        ...

    def close(self, token: WriteToken, receipt: RangeReceipt) -> None:
        """Store the receipt, which answers a repeated order."""
        ...

    def end(self, token: WriteToken) -> None:
        """Close an adopted batch, or that of the second passes; no workflow waits for its receipt."""
        ...

    def unfinished(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        ...

    def adopt_earlier(self, batch: int, order: AdoptOrder, attempt: int) -> WriteToken:
        """Adopt a batch of an earlier round; its failed deletes are tried again."""
        ...

    def ensure_latest(self, token: WriteToken, files: Sequence[int]) -> None:
        """Raise ``LeaseLost`` if a newer attempt or epoch works on the batch, or a file was done by another."""
        ...

    def count_claimed(self, token: WriteToken) -> int:
        """Return how many marks this batch has claimed, over all attempts."""
        ...

    def last_claim(self, token: WriteToken) -> ClaimId:
        """Return the last claim of this batch, over all attempts; a vault's marker must name it before its deletes."""
        ...


class DueMarks(Protocol):
    """The marks that batches work on."""

    def select_due(
        self, instance: str, kind: str, cutoff: int, after: Cursor, limit: int, until: Cursor | None = None
    ) -> Sequence[DueMark]:
        """Return the next due marks after a cursor, up to another one, in the order in which they became due."""
        ...

    def claimed_marks(self, token: WriteToken, after: ClaimedMark, limit: int) -> Sequence[ClaimedMark]:
        """Return the next marks of the batch that await their first pass, in the order of their files.

        They are claimed, and neither quarantined nor absorbed.
        """
        ...

    def take_finished(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Move marks into this batch whose second pass an earlier attempt has ended, but not settled."""
        ...

    def shorten_waits(self, token: WriteToken, upload_grace_seconds: int) -> None:
        """Let marks wait no longer than a second pass or a retry ever does: a clock may have been ahead."""
        ...

    def take_second_pass(
        self, token: WriteToken, after: Ref, limit: int, upload_grace_seconds: int
    ) -> Sequence[DueMark]:
        """Move marks into this batch whose second pass is due: their upload grace has passed since claim and pass."""
        ...


class DroppedFiles(NamedTuple):
    """A page of files that a take-over checked: the number of its last file, and the undone second-pass files kept."""

    last: int
    unchecked: int


class Files(Protocol):
    """The exact files that marks resolve to."""

    def store(self, token: WriteToken, files: Sequence[File], beyond: int = 0) -> int:
        """Add resolved files to the batch, numbered above ``beyond``; return the last number."""
        ...

    def last_number(self, token: WriteToken) -> int:
        """Return the number of the last file stored in the batch."""
        ...

    def drop(self, token: WriteToken, refs: Iterable[Ref], after: int = 0) -> None:
        """Drop undone files of marks that this batch did not claim, or that are listed again.

        ``after``: of files that have higher numbers.
        """
        ...

    def drop_unclaimed(self, token: WriteToken, after: int, *, second_pass: bool) -> DroppedFiles | None:
        """Drop what an older attempt left among some thousand files numbered above ``after``; None: there was none.

        ``second_pass``: drop the undone files of marks in their second pass too; otherwise they are counted.
        """
        ...

    def pages(self, token: WriteToken, after: int, to: int) -> Sequence[FilePage]:
        """Return the next untried files of claimed marks of the batch, numbered above ``after``, up to ``to``.

        A few pages of at most 1,000 keys each.
        """
        ...


class Fences(Protocol):
    """MARKED ↔ FENCED, and the children of marks."""

    def fence(self, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Fence marks and return those that are fenced now; marks that an owner's transaction locks are left out."""
        ...

    def unfence(self, token: WriteToken, reasons: Mapping[Ref, str]) -> None:
        """Give fenced marks back to their owner, each with the reason."""
        ...

    def take_back(self, token: WriteToken, refs: Collection[Ref]) -> None:
        """Remove fenced marks that their owner no longer calls garbage."""
        ...

    def release_all(self, instance: str) -> None:
        """Unfence the marks that a dead round had fenced; this round fences due marks again."""
        ...

    def count_children(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, int]:
        """Return how many marks name each of these as their parent; marks without children are left out."""
        ...

    def find_children(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, Sequence[DueMark]]:
        """Return the marks that name each of these as their parent."""
        ...


class OwnerMarks(Protocol):
    """Marks whose fate their owner decides."""

    def quarantined(self, instance: str) -> Iterator[Sequence[DueMark]]:
        """Yield marks whose quarantine only their owner can lift, some thousands at a time."""
        ...

    def free(self, instance: str, refs: Collection[Ref]) -> None:
        """Lift the quarantine of marks whose owner has fixed the cause; claimed ones are listed again in this round."""
        ...

    def take_back(self, instance: str, kinds: Mapping[str, Collection[str]], cutoffs: Mapping[str, int]) -> None:
        """Remove marks that were made below a parent that is no longer due, because a retention was raised."""
        ...

    def note_lacking(self, token: WriteToken, lacking: Mapping[Ref, Reason]) -> None:
        """Record that the owner could not name all files of these claimed marks."""
        ...


class Claims(Protocol):
    """MARKED or FENCED → CLAIMED."""

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """Claim at most ``CHUNK_MARKS`` marks under the guard; the stored files of the others are dropped."""
        ...

    def ask_keepers_outside_claim(
        self, token: WriteToken, candidates: Sequence[Candidate], files_after: int = 0
    ) -> Mapping[Ref, Kept]:
        """Return the marks that a keeper blocks now, by their files so far; keepers of claims only are not asked.

        ``files_after``: their files have higher numbers.
        """
        ...


class Outcomes(Protocol):
    """The outcome of each file."""

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one transaction; they only move towards done."""
        ...

    def of_marks(self, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the marks' files in this batch, some thousands at a time."""
        ...

    def between(self, token: WriteToken, after: int, to: int) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the batch's files numbered above ``after``, up to ``to``."""
        ...

    def tried_between(self, token: WriteToken, after: int, to: int) -> int:
        """Return how many of the batch's files numbered above ``after``, up to ``to``, have an outcome."""
        ...

    def deleted_so_far(self, token: WriteToken, kind: str) -> DeletedSoFar:
        """Return what the token's round has deleted of a kind so far."""
        ...


class Settling(Protocol):
    """A claimed mark and how it is settled; ``absorbed`` marks are removed with it."""

    ref: Ref
    absorbed: list[Ref]

    @property
    def settlement(self) -> Settlement:
        """Return how the mark is settled."""
        ...


class Settlements(Protocol):
    """CLAIMED → GONE."""

    def progress(self, token: WriteToken, refs: Sequence[Ref]) -> Sequence[Settling]:
        """Return claimed marks with the outcomes of their files so far."""
        ...

    def record_finished(self, token: WriteToken, refs: Sequence[Ref]) -> frozenset[Ref]:
        """Record that all files of these marks are gone, before their owner removes its records; return the marks.

        A mark that was discarded meanwhile is left out.
        """
        ...

    def lock_finished(self, connection: Any, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return which of these recorded marks still exist; they do until the connection's transaction ends."""
        ...

    def settle(self, token: WriteToken, marks: Sequence[Any], upload_grace_seconds: int) -> Mapping[Settlement, int]:
        """Remove the marks whose files are gone, count the failures, leave the rest claimed."""
        ...


class Quarantine(Protocol):
    """Marks that a round quarantines with a reason."""

    def quarantine(self, token: WriteToken, unresolvable: Sequence[Unresolvable]) -> None:
        """Quarantine marks that have not changed since the round read them; their state does not change."""
        ...

    def retry_failed(self, instance: str) -> None:
        """Lift, once a day, the quarantine of claimed marks whose deletes failed."""
        ...


class Stores(NamedTuple):
    """Everything that the pipeline reads and writes."""

    batches: Batches
    due_marks: DueMarks
    files: Files
    fences: Fences
    owner_marks: OwnerMarks
    claims: Claims
    outcomes: Outcomes
    settlements: Settlements
    quarantine: Quarantine
