"""Claim one chunk of marks: the irrevocable decision, under the guard, with every condition checked again.

The claim checks (docs/concepts.md, rule 4) the write token, the controls of the instance, the state, the retention, the
quarantine, the limits of 24 hours and every keeper, also for children that are claimed with their parent. Vaults and
liveness were checked just before (docs/adr/0008). A mark that an owner's transaction has locked is left for the next
round: no claim waits for an owner while it holds the guard.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.crash_points import reached
from sexton.marks.keepers import OWNER_BUSY, Kept
from sexton.marks.model import (
    CHUNK_MARKS,
    SEVERAL,
    Candidate,
    ClaimRequest,
    ClaimResult,
    MarkState,
    Ref,
    WriteToken,
)
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.rows import children_of, refs_in
from sexton.operators.controls.store import ControlStore
from sexton.recycle.model import DAY_MS
from sexton.recycle.pipeline.decide import ChildMark, ClaimDecision, LockedMark, decide
from sexton.recycle.pipeline.sql import round_counts
from sexton.recycle.pipeline.sql.write_token import verify


class ClaimStore:
    """MARKED → CLAIMED."""

    def __init__(self, db: Database, controls: ControlStore, keepers: Sequence[Keeper]) -> None:
        """``keepers``: in order of precedence; the first answer about a mark counts."""
        self._db = db
        self._controls = controls
        self._keepers = keepers

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """Claim at most ``CHUNK_MARKS`` marks; the stored files of the others are dropped.

        Raises:
            LeaseLost: the lease expired, or a newer epoch or attempt works on the batch.
            NotEnabled: the instance is in observe mode.
            Halted: a stop, a list or a window halts the instance.
        """
        if len(request.candidates) > CHUNK_MARKS:
            raise ValueError(f"{len(request.candidates)} marks in one claim; at most {CHUNK_MARKS}")
        # Before the guard is taken: this may be slow. Under the guard each keeper checks what has changed since.
        refs = [*request.refs, *request.children]
        snapshots = [keeper.snapshot(request.token, refs, request.files_after) for keeper in self._keepers]
        reached("claim.asked")
        with deciding(self._db, request.instance) as tx:
            reached("claim.guarded")
            now = self._db.now(tx)
            verify(self._db, tx, request.token, now=now)
            self._controls.check_in(tx, request.instance)
            locked = self._lock(tx, request)
            children = self._lock_children(tx, request, locked)
            blocked = self._blocked(tx, request, locked, children, now, snapshots)
            decision = decide(request, locked, children, blocked, self._objects_claimed(tx, request, now))
            reached("claim.checked")
            self._record(tx, request, decision, locked, now)
            reached("claim.written")
        reached("claim.committed")
        claimed = frozenset(candidate.ref for candidate in decision.claimed)
        unclaimed = [ref for ref in request.refs if ref not in claimed]
        self._drop_files(request.token, unclaimed)
        busy = self._existing(request.instance, [ref for ref in unclaimed if ref not in locked])
        return ClaimResult(claimed, {**decision.keep_reasons, **dict.fromkeys(busy, OWNER_BUSY)})

    def blocked(self, token: WriteToken, candidates: Sequence[Candidate]) -> Mapping[Ref, Kept]:
        """Return the marks that a keeper blocks now, by the files stored for them so far.

        Used outside claims: before an owner is asked to fence, and for the files of a second pass.
        """
        with deciding(self._db, token.instance) as tx:
            now = self._db.now(tx)
            verify(self._db, tx, token, now=now)
            keepers = [keeper for keeper in self._keepers if not keeper.for_claims_only]
            return _first_answers(keeper.blocking(tx, token, candidates, now, None) for keeper in keepers)

    def _lock(self, tx: Connection, request: ClaimRequest) -> dict[Ref, LockedMark]:
        """Lock the candidates' rows, except those that another transaction has locked.

        The rows are selected by primary key alone: with further conditions the planner may scan all due marks instead.
        """
        mark = self._db.t.mark
        columns = (
            mark.c.kind,
            mark.c.id,
            mark.c.vault,
            mark.c.state,
            mark.c.quarantined_reason,
            mark.c.retention_starts_at,
        )
        is_candidate = and_(mark.c.instance == request.instance, refs_in(self._db, mark, request.refs))
        rows = tx.execute(select(*columns).where(is_candidate).with_for_update(skip_locked=True))
        return {
            Ref(r.kind, r.id): LockedMark(
                r.vault, MarkState(r.state), r.quarantined_reason is not None, r.retention_starts_at
            )
            for r in rows
        }

    def _lock_children(
        self, tx: Connection, request: ClaimRequest, locked: Mapping[Ref, LockedMark]
    ) -> list[ChildMark]:
        """Lock the children of candidates that absorb them; return also the children that could not be locked."""
        parents = [c.ref for c in request.candidates if c.children is not None and c.ref in locked]
        if not parents:
            return []
        mark = self._db.t.mark
        columns = (mark.c.kind, mark.c.id, mark.c.state, mark.c.parent_kind, mark.c.parent_id)
        below = select(*columns).where(mark.c.instance == request.instance, children_of(self._db, mark, parents))
        existing = tx.execute(below).all()
        states = {Ref(r.kind, r.id): MarkState(r.state) for r in tx.execute(below.with_for_update(skip_locked=True))}
        return [
            ChildMark(ref, Ref(row.parent_kind, row.parent_id), states.get(ref))
            for row in existing
            if (ref := Ref(row.kind, row.id))
        ]

    def _blocked(
        self,
        tx: Connection,
        request: ClaimRequest,
        locked: Mapping[Ref, LockedMark],
        children: Sequence[ChildMark],
        now: int,
        snapshots: Sequence[Any],
    ) -> Mapping[Ref, Kept]:
        """Ask every keeper about the locked candidates and their children."""
        candidates = [candidate for candidate in request.candidates if candidate.ref in locked]
        for child in children:
            resolved = request.children.get(child.ref, Candidate(child.ref))
            candidates.append(resolved._replace(parent=child.parent))
        return _first_answers(
            keeper.blocking(tx, request.token, candidates, now, snapshot)
            for keeper, snapshot in zip(self._keepers, snapshots, strict=True)
        )

    def _objects_claimed(self, tx: Connection, request: ClaimRequest, now: int) -> int:
        """Return how many objects were claimed under a limit within the last 24 hours."""
        if request.allowance is None:
            return 0
        batch = self._db.t.batch
        recent = and_(
            batch.c.instance == request.instance, batch.c.limited_objects > 0, batch.c.claimed_at > now - DAY_MS
        )
        return int(tx.execute(select(func.coalesce(func.sum(batch.c.limited_objects), 0)).where(recent)).scalar_one())

    def _record(
        self,
        tx: Connection,
        request: ClaimRequest,
        decision: ClaimDecision,
        locked: Mapping[Ref, LockedMark],
        now: int,
    ) -> None:
        """Write the decision: states, files, the batch's sums and the round's counts."""
        db, mark, file, token = self._db, self._db.t.mark, self._db.t.mark_file, request.token
        claimed = [candidate.ref for candidate in decision.claimed]
        for keeper in self._keepers:
            keeper.released(tx, token, decision.claimed)
        values: dict[str, Any] = {
            "state": MarkState.CLAIMED,
            "claimed_at": now,
            "batch": token.batch,
            "claimed_batch": token.batch,
            "lease_epoch": token.lease.epoch,
        }
        is_claimed = and_(mark.c.instance == token.instance, refs_in(db, mark, claimed))
        tx.execute(update(mark).where(is_claimed).values(**values))
        for reason in sorted({c.lacking for c in decision.claimed if c.lacking is not None}):
            lacking = [c.ref for c in decision.claimed if c.lacking is reason]
            in_part = and_(mark.c.instance == token.instance, refs_in(db, mark, lacking))
            tx.execute(update(mark).where(in_part).values(lacking=reason))
        if decision.absorbed:
            children = and_(mark.c.instance == token.instance, refs_in(db, mark, decision.absorbed))
            tx.execute(update(mark).where(children).values(**values, absorbed=True, quarantined_reason=None))
            # Their files are among those of the mark that absorbs them.
            own = and_(file.c.instance == token.instance, refs_in(db, file, decision.absorbed))
            tx.execute(delete(file).where(own))
        # A round that died between resolve and claim may have left files of these marks in its own batch.
        stale = and_(file.c.instance == token.instance, file.c.batch != token.batch)
        tx.execute(delete(file).where(stale, refs_in(db, file, claimed)))
        self._count(tx, request, decision, locked, now)

    def _count(
        self,
        tx: Connection,
        request: ClaimRequest,
        decision: ClaimDecision,
        locked: Mapping[Ref, LockedMark],
        now: int,
    ) -> None:
        batch, token = self._db.t.batch, request.token
        sums: dict[str, Any] = {"claimed": batch.c.claimed + len(decision.claimed)}
        if request.allowance is not None and decision.claimed:
            sums |= {"limited_objects": batch.c.limited_objects + decision.objects, "claimed_at": now}
        tx.execute(update(batch).where(batch.c.id == token.batch).values(**sums))
        per = Counter((c.ref.kind, locked[c.ref].vault or SEVERAL) for c in decision.claimed)
        per.update((ref.kind, SEVERAL) for ref in decision.absorbed)
        round_counts.increment(self._db, tx, token.round, {key: {"claimed": n} for key, n in per.items()})

    def _drop_files(self, token: WriteToken, refs: Sequence[Ref]) -> None:
        """Drop the stored files of marks that were not claimed.

        This runs after the guard is released, because one mark may have millions of files. They belong to no claimed
        mark, so no round deletes them.
        """
        if not refs:
            return
        file = self._db.t.mark_file
        of_batch = and_(file.c.instance == token.instance, file.c.batch == token.batch)
        with self._db.write() as tx:
            verify(self._db, tx, token)
            tx.execute(delete(file).where(of_batch, refs_in(self._db, file, refs)))

    def _existing(self, instance: str, refs: Sequence[Ref]) -> list[Ref]:
        """Return the marks that exist. One that exists but could not be locked is locked by an owner's transaction."""
        if not refs:
            return []
        mark = self._db.t.mark
        in_question = and_(mark.c.instance == instance, refs_in(self._db, mark, refs))
        with self._db.read() as tx:
            return [Ref(*row) for row in tx.execute(select(mark.c.kind, mark.c.id).where(in_question))]


def _first_answers(answers: Iterable[Mapping[Ref, Kept]]) -> dict[Ref, Kept]:
    """Merge the keepers' answers; the first answer about a mark counts."""
    first: dict[Ref, Kept] = {}
    for answer in answers:
        first = {**answer, **first}
    return first
