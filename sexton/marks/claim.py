"""Claim one chunk of marks: the irrevocable decision, under the guard, with every condition checked again.

What it re-checks (design, rule 4): lease epoch and attempt are mine, the instance is enabled and not halted, the state
is MARKED, the retention has passed, the mark is not set aside and nobody in ``holders.HOLDERS`` keeps it. Vault and
liveness were asked just before (docs/adr/0008). Marks whose owner's transaction is deciding about them this moment are
left for the next round: nobody waits for an owner while holding the guard.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import and_, delete, select, update

from sexton.control.port import Halted, NotEnabled
from sexton.control.store import ControlStore
from sexton.crashpoints import reached
from sexton.db.engine import Database
from sexton.guard import deciding
from sexton.marks.fence import prove
from sexton.marks.holders import kept
from sexton.marks.model import CHUNK_MARKS, Claimed, Hand, Ref
from sexton.marks.rows import among
from sexton.marks.tally import add


class Claims:
    """MARKED → CLAIMED."""

    _db: Database
    _controls: ControlStore

    def claim(self, hand: Hand, refs: Sequence[Ref], cutoff: int) -> Claimed:
        """Claim at most ``CHUNK_MARKS`` marks; files of the rest are dropped in the same transaction.

        Args:
            hand: the batch under which they are claimed.
            refs: marks whose files are stored in the batch.
            cutoff: the plan's; what is younger is left alone.

        Raises:
            LeaseLost: the lease expired, or a newer epoch or attempt works here.
            NotEnabled: the instance only observes.
            Halted: it was stopped, or a list or window keeps it.
        """
        if len(refs) > CHUNK_MARKS:
            raise ValueError(f"{len(refs)} marks in one claim; at most {CHUNK_MARKS}")
        db, mark, file, instance = self._db, self._db.t.mark, self._db.t.mark_file, self._db.t.instance
        with deciding(db, hand.instance) as c:
            reached("claim.guarded")
            now = db.now(c)
            prove(db, c, hand, now=now)
            mode = c.execute(select(instance.c.mode).where(instance.c.id == hand.instance)).scalar_one_or_none()
            if mode != "enabled":
                raise NotEnabled(f"{hand.instance} only observes; run: sexton enable {hand.instance}")
            if (halt := self._controls.halt(c, hand.instance)) is not None:
                raise Halted(halt)
            # By primary key alone: with the conditions in SQL the planner may walk everything that is due instead.
            locked = c.execute(
                select(mark.c.kind, mark.c.id, mark.c.vault, mark.c.state, mark.c.quarantined_reason, mark.c.ages_from)
                .where(mark.c.instance == hand.instance, among(db, mark, refs))
                .with_for_update(skip_locked=True)
            ).all()
            free = [r for r in locked if r.state == "MARKED" and r.quarantined_reason is None and r.ages_from <= cutoff]
            held = kept(db, c, hand, [Ref(r.kind, r.id) for r in free], now)
            free = [r for r in free if Ref(r.kind, r.id) not in held]
            reached("claim.checked")
            claimed = frozenset(Ref(r.kind, r.id) for r in free)
            c.execute(
                update(mark)
                .where(mark.c.instance == hand.instance, among(db, mark, claimed))
                .values(state="CLAIMED", claimed_at=now, batch=hand.batch, lease_epoch=hand.lease.epoch)
            )
            # A round that died between resolve and claim may have left files of these marks in its own batch.
            stale = and_(file.c.instance == hand.instance, file.c.batch != hand.batch)
            c.execute(delete(file).where(stale, among(db, file, claimed)))
            rest = [r for r in refs if r not in claimed]
            if rest:
                mine = and_(file.c.instance == hand.instance, file.c.batch == hand.batch)
                c.execute(delete(file).where(mine, among(db, file, rest)))
            batch = db.t.batch
            more = {"claimed": batch.c.claimed + len(claimed)}
            c.execute(update(batch).where(batch.c.id == hand.batch).values(**more))
            per: dict[tuple[str, str], dict[str, int]] = {}
            for r in free:
                counts = per.setdefault((r.kind, r.vault), {"claimed": 0})
                counts["claimed"] += 1
            add(db, c, hand.round, per)
            reached("claim.written")
        reached("claim.committed")
        seen = {Ref(r.kind, r.id) for r in locked}
        return Claimed(claimed, self._existing(hand, [r for r in rest if r not in seen]), held)

    def held(self, hand: Hand, refs: Sequence[Ref]) -> Mapping[Ref, str]:
        """Return which claimed marks somebody keeps now, by the files found at a last look, and who keeps them."""
        with deciding(self._db, hand.instance) as c:
            now = self._db.now(c)
            prove(self._db, c, hand, now=now)
            return kept(self._db, c, hand, refs, now)

    def _existing(self, hand: Hand, refs: Sequence[Ref]) -> frozenset[Ref]:
        """Return those that are there: what was passed over and still exists is locked by an owner's transaction."""
        if not refs:
            return frozenset()
        mark = self._db.t.mark
        here = and_(mark.c.instance == hand.instance, among(self._db, mark, refs))
        with self._db.read() as c:
            found = c.execute(select(mark.c.kind, mark.c.id).where(here))
            return frozenset(Ref(*row) for row in found)
