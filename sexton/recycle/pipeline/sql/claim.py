"""Claim one chunk of marks: the irrevocable decision, under the guard, with every condition checked again.

The trigger ``claimed_is_irrevocable`` (database/migrations/versions/0001.functions.sql) lets no claim be taken back.

The claim checks (docs/concepts.md, rule 4) the write token, the controls of the instance, the state, the retention, the
quarantine, the limits on deletions within 24 hours and every keeper, also for children that are claimed with their
parent. Vaults and liveness were checked just before (docs/adr/0008). A mark that an owner's transaction has locked is
left for the next round: a claim that has the guard waits for no owner.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.crash_points import reached
from sexton.marks.kept import OWNER_BUSY, Kept
from sexton.marks.model import (
    CHUNK_MARKS,
    SEVERAL,
    Candidate,
    ClaimRequest,
    ClaimResult,
    MarkState,
    Ref,
    Span,
    WriteToken,
)
from sexton.marks.sql.file_lists import drop_files
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.rows import children_of, refs_in
from sexton.operators.controls.store import ControlStore
from sexton.recycle.pipeline.decide import ChildMark, ClaimDecision, LockedMark, decide
from sexton.recycle.pipeline.sql.batches import add_to_round, limited_objects_claimed, verify
from sexton.recycle.pipeline.sql.owner_marks import set_lacking


class ClaimStore:
    """MARKED or FENCED → CLAIMED."""

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
        # Before the guard: each keeper checks under it what has changed since.
        refs = list(dict.fromkeys([*request.refs, *request.resolved]))
        snapshots = [keeper.snapshot(request.token, refs, request.files) for keeper in self._keepers]
        reached("claim.asked")
        with deciding(self._db, request.instance) as tx:
            reached("claim.guarded")
            now = self._db.now(tx)
            verify(tx, request.token, now=now)
            self._controls.check_in(tx, request.instance)
            locked = self._lock(tx, request)
            children = self._lock_children(tx, request, locked, now)
            judged = [candidate for candidate in request.candidates if candidate.ref in locked]
            resolved = [request.resolved.get(child.ref, Candidate(child.ref)) for child in children]
            judged += [c._replace(parent=child.parent) for c, child in zip(resolved, children, strict=True)]
            blocked = _first_answers(
                keeper.blocking(tx, request.token, judged, request.files, now, snapshot)
                for keeper, snapshot in zip(self._keepers, snapshots, strict=True)
            )
            is_limited = request.allowance is not None
            claimed_before = limited_objects_claimed(self._db, tx, request.instance, now) if is_limited else 0
            decision = decide(request, locked, children, blocked, claimed_before)
            reached("claim.checked")
            self._record(tx, request, decision, locked, now)
            reached("claim.written")
        reached("claim.committed")
        return self._leave_unclaimed(request, decision, locked)

    def ask_keepers_outside_claim(
        self, token: WriteToken, candidates: Sequence[Candidate], files_after: int = 0
    ) -> Mapping[Ref, Kept]:
        """Return the marks that a keeper blocks now, by the files stored for them so far.

        Used before an owner is asked to fence, and for the files of a second pass. In a transaction of its own, without
        snapshots, and without the keepers that judge only claims. ``files_after``: their files have higher numbers.
        """
        files = Span(token.batch, files_after)
        with deciding(self._db, token.instance) as tx:
            now = self._db.now(tx)
            verify(tx, token, now=now)
            keepers = [keeper for keeper in self._keepers if not keeper.for_claims_only]
            return _first_answers(keeper.blocking(tx, token, candidates, files, now, None) for keeper in keepers)

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
        is_candidate = and_(mark.c.instance == request.instance, refs_in(mark, request.refs))
        rows = tx.execute(select(*columns).where(is_candidate).with_for_update(skip_locked=True)).all()
        return {
            Ref(r.kind, r.id): LockedMark(
                r.vault, MarkState(r.state), r.quarantined_reason is not None, r.retention_starts_at
            )
            for r in rows
        }

    def _lock_children(
        self, tx: Connection, request: ClaimRequest, locked: Mapping[Ref, LockedMark], now: int
    ) -> list[ChildMark]:
        """Lock the children of candidates that absorb them; return also the children that could not be locked."""
        parents = [c.ref for c in request.candidates if c.children is not None and c.ref in locked]
        if not parents:
            return []
        mark = self._db.t.mark
        waits = and_(mark.c.extra_retention_seconds > 0, mark.c.retention_starts_at > now).label("waits")
        columns = (mark.c.kind, mark.c.id, mark.c.state, mark.c.parent_kind, mark.c.parent_id, waits)
        is_child = and_(mark.c.instance == request.instance, children_of(mark, parents))
        children_query = select(*columns).where(is_child)
        rows = tx.execute(children_query).all()
        locked_rows = tx.execute(children_query.with_for_update(skip_locked=True))
        states = {Ref(r.kind, r.id): MarkState(r.state) for r in locked_rows}
        refs = {Ref(row.kind, row.id): row for row in rows}
        return [ChildMark(ref, Ref(r.parent_kind, r.parent_id), states.get(ref), r.waits) for ref, r in refs.items()]

    def _record(
        self,
        tx: Connection,
        request: ClaimRequest,
        decision: ClaimDecision,
        locked: Mapping[Ref, LockedMark],
        now: int,
    ) -> None:
        """Write the decision: states, files, the batch's sums and the round's counts."""
        token, mark, batch, claim = request.token, self._db.t.mark, self._db.t.batch, self._db.t.claim
        for keeper in self._keepers:
            keeper.on_claimed(tx, token, decision.claimed)
        columns = {
            "state": MarkState.CLAIMED,
            "claimed_at": now,
            "batch": token.batch,
            "claimed_batch": token.batch,
            "lease_epoch": token.lease.epoch,
            "files_after": request.files_after,
            "last_file": request.last_file,
        }
        of_instance = mark.c.instance == request.instance
        tx.execute(update(mark).where(of_instance, refs_in(mark, decision.claimed_refs)).values(**columns))
        lacking = {candidate.ref: candidate.lacking for candidate in decision.claimed if candidate.lacking is not None}
        set_lacking(self._db, tx, token.instance, lacking)
        if decision.absorbed:  # children are claimed with their parents, whose files include theirs
            columns |= {"absorbed": True, "quarantined_reason": None}
            tx.execute(update(mark).where(of_instance, refs_in(mark, decision.absorbed)).values(**columns))
            drop_files(self._db, tx, request.files, decision.absorbed)
        sums: dict[str, Any] = {"claimed": batch.c.claimed + len(decision.claimed)}
        if decision.claimed:  # vaults' markers name the claim before its first delete (docs/adr/0046)
            insertion = insert(claim).values(round=token.round).returning(claim.c.id)
            sums["claim"] = tx.execute(insertion).scalar_one()
            if request.allowance is not None:  # objects count, where a limit applies
                sums |= {"limited_objects": batch.c.limited_objects + decision.objects, "claimed_at": now}
        tx.execute(update(batch).where(batch.c.id == token.batch).values(**sums))
        claimed = Counter((ref.kind, locked[ref].vault or SEVERAL) for ref in decision.claimed_refs)
        claimed.update((ref.kind, SEVERAL) for ref in decision.absorbed)
        counts = {kind_and_vault: {"claimed": marks} for kind_and_vault, marks in claimed.items()}
        add_to_round(self._db, tx, token.round, counts)

    def _leave_unclaimed(
        self, request: ClaimRequest, decision: ClaimDecision, locked: Mapping[Ref, LockedMark]
    ) -> ClaimResult:
        """Drop the stored files of the marks that were not claimed, and return the result of the claim."""
        claimed = frozenset(decision.claimed_refs)
        unclaimed = [ref for ref in request.refs if ref not in claimed]
        if unclaimed:
            # After the guard is released, because one mark may have millions of files. They belong to no claimed mark,
            # so no round deletes them.
            with self._db.write() as tx:
                verify(tx, request.token)
                drop_files(self._db, tx, request.files, unclaimed)
        keep_reasons = dict(decision.keep_reasons)
        if unlocked := [ref for ref in unclaimed if ref not in locked]:
            # An owner's transaction has locked those that exist: the claim could not lock them.
            mark = self._db.t.mark
            is_unlocked = and_(mark.c.instance == request.instance, refs_in(mark, unlocked))
            with self._db.read() as tx:
                for row in tx.execute(select(mark.c.kind, mark.c.id).where(is_unlocked)):
                    keep_reasons[Ref(*row)] = OWNER_BUSY
        return ClaimResult(claimed, keep_reasons)


def _first_answers(answers: Iterable[Mapping[Ref, Kept]]) -> dict[Ref, Kept]:
    """Merge the keepers' answers; the first answer about a mark counts."""
    first: dict[Ref, Kept] = {}
    for answer in answers:
        first = {**answer, **first}
    return first
