"""Decide which marks of a chunk are claimed and why the others are kept, and how a claimed mark is settled. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from sexton.marks.kept import BY_LIMIT, WAITS_FOR_CHILD, Kept
from sexton.marks.model import DONE, SEVERAL, Candidate, ClaimRequest, Cutoff, MarkState, Ref, Settlement
from sexton.marks.policy import is_due
from sexton.storage.model import KeyOutcome


class LockedMark(NamedTuple):
    """A mark's row, locked by the claim. ``retention_starts_at``: ms since 1970."""

    vault: str | None
    state: MarkState
    quarantined: bool
    retention_starts_at: int


class ChildMark(NamedTuple):
    """A mark that names one of the candidates as its parent.

    ``state``: None if another transaction locks it. ``waits``: the extra retention that its owner gave it is not over.
    """

    ref: Ref
    parent: Ref
    state: MarkState | None
    waits: bool = False


class ClaimDecision(NamedTuple):
    """The result of a claim. ``absorbed``: the children that are claimed with the claimed marks."""

    claimed: Sequence[Candidate]
    absorbed: Sequence[Ref]
    keep_reasons: Mapping[Ref, Kept]

    @property
    def claimed_refs(self) -> list[Ref]:
        """Return the references of the claimed marks, without those of their children."""
        return [candidate.ref for candidate in self.claimed]

    @property
    def objects(self) -> int:
        """Return how many stored files the claimed marks have."""
        return sum(candidate.files for candidate in self.claimed)


def decide(
    request: ClaimRequest,
    locked: Mapping[Ref, LockedMark],
    children: Sequence[ChildMark],
    blocked: Mapping[Ref, Kept],
    objects_claimed: int,
) -> ClaimDecision:
    """Decide which candidates are claimed, and why the others are kept.

    A mark is claimed when its own row allows it, each of its children can be claimed with it, no keeper blocks it or
    one of its children, and the limit has room. A mark whose row does not allow it is left out without a reason:
    another round has it, or a later round checks it again. Limits count files in the order of the request, the oldest
    mark first.

    Args:
        request: the candidates, the cutoff and the limit.
        locked: rows of the candidates that this transaction has locked.
        children: marks whose parents are candidates that absorb their children.
        blocked: the candidates and children that keepers block, with the reasons.
        objects_claimed: objects claimed under a limit within the last 24 hours.
    """
    claimed: list[Candidate] = []
    absorbed: list[Ref] = []
    keep_reasons: dict[Ref, Kept] = {}
    children_of: dict[Ref, list[ChildMark]] = {}
    for child in children:
        children_of.setdefault(child.parent, []).append(child)
    for candidate in request.candidates:
        row = locked.get(candidate.ref)
        if row is None or not may_be_claimed(row, candidate, request.cutoff):
            continue
        own_children = children_of.get(candidate.ref, ()) if candidate.children is not None else ()
        answer = _why_kept(candidate, own_children, request, blocked)
        if answer is None and request.allowance is not None and objects_claimed + candidate.files > request.allowance:
            answer = BY_LIMIT
        if answer is not None:
            keep_reasons[candidate.ref] = answer
            continue
        objects_claimed += candidate.files
        claimed.append(candidate)
        absorbed += [child.ref for child in own_children]
    return ClaimDecision(claimed, absorbed, keep_reasons)


def may_be_claimed(row: LockedMark, candidate: Candidate, cutoff: Cutoff) -> bool:
    """Return whether a mark's own row allows its claim, and is still the mark whose files were resolved."""
    same = candidate.retention_starts_at in (None, row.retention_starts_at)
    ready = row.state is MarkState.FENCED or (row.state is MarkState.MARKED and not candidate.must_be_fenced)
    return same and ready and not row.quarantined and is_due(row.retention_starts_at, cutoff)


def _why_kept(
    candidate: Candidate, children: Sequence[ChildMark], request: ClaimRequest, blocked: Mapping[Ref, Kept]
) -> Kept | None:
    """Return why a candidate is kept, because of itself or a child; None: nothing blocks it."""
    if any(not _child_may_be_claimed(child, candidate, request) for child in children):
        return WAITS_FOR_CHILD
    answers = [blocked[ref] for ref in (candidate.ref, *(child.ref for child in children)) if ref in blocked]
    return answers[0] if answers else None


def _child_may_be_claimed(child: ChildMark, parent: Candidate, request: ClaimRequest) -> bool:
    """Return whether a child can be claimed with its parent.

    It must have been resolved with the parent, and this transaction must have locked it. A child that its writer is
    committing, that another batch deletes, that appeared after the parent was resolved, or whose extra retention is
    not over therefore keeps its parent.
    """
    if child.waits or child.ref not in (parent.children or ()):
        return False
    resolved = request.resolved.get(child.ref)
    must_be_fenced = resolved is not None and resolved.must_be_fenced
    return child.state is MarkState.FENCED or (child.state is MarkState.MARKED and not must_be_fenced)


@dataclass
class DeletionProgress:
    """One claimed mark, and sums over its files. ``absorbed``: the marks that are removed with it.

    ``objects``, ``bytes``: what is gone; bytes as measured, otherwise as the owner states them. ``failed``: files that
    failed or have changed, by vault; what is gone was counted when its outcome was stored.
    """

    ref: Ref
    vault: str
    failures: int = 0
    prefix: str | None = None
    first_pass_at: int | None = None
    lacking: str | None = None
    files: int = 0
    done: int = 0
    objects: int = 0
    bytes: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    changed: bool = False
    reason: str | None = None
    absorbed: list[Ref] = field(default_factory=list)

    @classmethod
    def of(cls, mark: Any, files: Iterable[Any]) -> Self:
        """Build it from the mark's row, and from rows of (vault, outcome, files, bytes, reason)."""
        of_mark = (Ref(mark.kind, mark.id), mark.vault or SEVERAL, mark.failures)
        progress = cls(*of_mark, mark.prefix, mark.first_pass_at, mark.lacking)
        for row in files:
            progress.files += row.files
            if row.outcome in DONE:
                progress.done += row.files
                progress.objects += 0 if row.outcome is KeyOutcome.ABSENT else row.files
                progress.bytes += row.bytes if row.outcome is KeyOutcome.DELETED else 0
            elif row.outcome is not None:
                progress.failed[row.vault] += row.files
                is_change = row.outcome is KeyOutcome.CHANGED
                if is_change or not progress.changed:
                    progress.reason = row.reason or progress.reason
                progress.changed |= is_change
        return progress

    @property
    def settlement(self) -> Settlement:
        """Return how the mark is settled after every file was tried.

        A record is deleted only when each of its files is confirmed gone. A prefix is listed a second time after the
        upload grace (a PUT may land after list and delete), so a clean first pass leaves it to the second pass. If that
        still finds objects it asks for another: a PUT was late, or the store's listing had ended early.
        """
        if self.changed:
            return Settlement.CHANGED
        if self.failed:
            return Settlement.FAILED
        if self.done < self.files:
            return Settlement.WAITING
        if self.lacking:
            return Settlement.LACKING
        if self.prefix is not None and (self.first_pass_at is None or self.objects):
            return Settlement.SECOND_PASS
        return Settlement.GONE
