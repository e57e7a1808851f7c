"""Claim one chunk of marks: the irrevocable decision, under the guard, with every condition checked again.

What it re-checks (design, rule 4): lease epoch and attempt are mine, the instance is enabled and not halted, the state
is MARKED (FENCED, where the owner had to be asked), the retention has passed, the mark is not set aside, the limits of
24 hours allow it and nobody in ``holders.HOLDERS`` keeps it or a mark that is claimed with it. Vault and
liveness were asked just before (docs/adr/0008). Marks whose owner's transaction is deciding about them this moment are
left for the next round: nobody waits for an owner while holding the guard.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.crash_points import reached
from sexton.marks.keepers import BELOW, BY_LIMIT
from sexton.marks.model import CHUNK_MARKS, SEVERAL, Claimed, ClaimFacts, Ref, WriteToken
from sexton.marks.sql.rows import among, below
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.keeper import Above, kept
from sexton.protection.sql.keeper import Protections, ProtectionSnapshot
from sexton.recycle.pipeline.sql.round_counts import add
from sexton.recycle.pipeline.sql.write_token import prove
from sexton.recycle.planning.limits import DAY_MS
from sexton.replication.replicas.sql.keeper import needed, noted

_NO_TERMS = ClaimFacts()


class Claims:
    """MARKED → CLAIMED."""

    _db: Database
    _controls: ControlStore
    _protections: Protections

    def claim(
        self,
        token: WriteToken,
        refs: Sequence[Ref],
        cutoff: int,
        terms: Mapping[Ref, ClaimFacts] = MappingProxyType({}),
        allowance: int | None = None,
        beyond: int | None = None,
    ) -> Claimed:
        """Claim at most ``CHUNK_MARKS`` marks; files of the rest are dropped.

        Args:
            hand: the batch under which they are claimed.
            refs: marks whose files are stored in the batch.
            cutoff: the plan's; what is younger is left alone.
            terms: more about some of them.
            allowance: how many objects may be claimed within 24 hours under a limit; None: no limit.
            beyond: a number that all stored files of the marks are above, where that is known: they are found sooner.

        Raises:
            LeaseLost: the lease expired, or a newer epoch or attempt works here.
            NotEnabled: the instance only observes.
            Halted: it was stopped, or a list or window keeps it.
        """
        if len(refs) > CHUNK_MARKS:
            raise ValueError(f"{len(refs)} marks in one claim; at most {CHUNK_MARKS}")
        db, mark, file = self._db, self._db.t.mark, self._db.t.mark_file
        # Long before the guard is held; what is registered meanwhile is asked about again.
        asked = self._protections.ask(token, [*refs, *(c for t in terms.values() for c in t.below or ())], beyond)
        reached("claim.asked")
        with deciding(db, token.instance) as c:
            reached("claim.guarded")
            now = db.now(c)
            prove(db, c, token, now=now)
            self._controls.check_in(c, token.instance)
            # By primary key alone: with the conditions in SQL the planner may walk everything that is due instead.
            locked = c.execute(
                select(mark.c.kind, mark.c.id, mark.c.vault, mark.c.state, mark.c.quarantined_reason, mark.c.ages_from)
                .where(mark.c.instance == token.instance, among(db, mark, refs))
                .with_for_update(skip_locked=True)
            ).all()
            here = {Ref(r.kind, r.id): r for r in locked}
            free = [ref for ref in refs if ref in here and _free(here[ref], cutoff, terms.get(ref, _NO_TERMS))]
            children, held = self._below(c, token, free, terms)
            free = [ref for ref in free if ref not in held]
            above = {ref: t.above for ref, t in terms.items() if t.above}
            held |= self._kept(c, token, free, children, now, above, asked)
            free = [ref for ref in free if ref not in held]
            # Not of what goes with a mark above it: of what is dropped nobody needs versions.
            held |= needed(db, c, token.instance, {r: v for r in free if r in terms and (v := terms[r].versions)})
            free = [ref for ref in free if ref not in held]
            if allowance is not None:
                held |= dict.fromkeys(over := self._over(c, token, free, terms, allowance, now), BY_LIMIT)
                free = [ref for ref in free if ref not in over]
            reached("claim.checked")
            claimed = frozenset(free)
            noted(db, c, token.instance, [v for r in free if r in terms and (v := terms[r].versions)])
            c.execute(
                update(mark)
                .where(mark.c.instance == token.instance, among(db, mark, claimed))
                .values(
                    state="CLAIMED",
                    claimed_at=now,
                    batch=token.batch,
                    claimed_in=token.batch,
                    lease_epoch=token.lease.epoch,
                )
            )
            for why in {terms[ref].lacking for ref in free if ref in terms} - {None}:
                its = among(db, mark, [ref for ref in free if ref in terms and terms[ref].lacking is why])
                c.execute(update(mark).where(mark.c.instance == token.instance, its).values(lacking=why))
            absorbed = [child for ref in free for child in children.get(ref, ())]
            self._absorb(c, token, absorbed, now)
            # A round that died between resolve and claim may have left files of these marks in its own batch.
            stale = and_(file.c.instance == token.instance, file.c.batch != token.batch)
            c.execute(delete(file).where(stale, among(db, file, claimed)))
            batch = db.t.batch
            more: dict[str, Any] = {"claimed": batch.c.claimed + len(claimed)}
            if allowance is not None and free:
                files = sum(terms[ref].files for ref in free if ref in terms)
                more |= {"limited": batch.c.limited + files, "claimed_at": now}
            c.execute(update(batch).where(batch.c.id == token.batch).values(**more))
            per = Counter((ref.kind, here[ref].vault or SEVERAL) for ref in free)
            per.update((child.kind, SEVERAL) for child in absorbed)
            add(db, c, token.round, {key: {"claimed": n} for key, n in per.items()})
            reached("claim.written")
        reached("claim.committed")
        # Not while deciding: one mark may have millions. They are of no claimed mark, so nobody deletes them.
        if rest := [r for r in refs if r not in claimed]:
            mine = and_(file.c.instance == token.instance, file.c.batch == token.batch)
            with db.write() as c:
                prove(db, c, token)
                c.execute(delete(file).where(mine, among(db, file, rest)))
        return Claimed(claimed, self._existing(token, [r for r in rest if r not in here]), held)

    def _below(
        self, c: Connection, token: WriteToken, refs: Sequence[Ref], terms: Mapping[Ref, ClaimFacts]
    ) -> tuple[dict[Ref, list[Ref]], dict[Ref, str]]:
        """Return the marks that go with each absorbing one, and the absorbing ones that must wait for one of theirs.

        Every mark below must be one that was looked at, and be ours to claim: what its writer commits this moment, what
        is being deleted in another batch, or came after the look, keeps its parent.
        """
        db, mark = self._db, self._db.t.mark
        parents = {ref: terms[ref].below for ref in refs if ref in terms and terms[ref].below is not None}
        if not parents:
            return {}, {}
        columns = (mark.c.kind, mark.c.id, mark.c.state, mark.c.parent_kind, mark.c.parent_id)
        wanted = select(*columns).where(mark.c.instance == token.instance, below(db, mark, parents))
        there = c.execute(wanted).all()
        ours = {Ref(r.kind, r.id): r for r in c.execute(wanted.with_for_update(skip_locked=True))}
        found: dict[Ref, list[Ref]] = {}
        wait: dict[Ref, str] = {}
        for row in there:
            parent, child = Ref(row.parent_kind, row.parent_id), Ref(row.kind, row.id)
            looked_at = child in (parents[parent] or ()) and child in ours
            ready = ("FENCED",) if terms.get(child, _NO_TERMS).fenced else ("MARKED", "FENCED")
            if looked_at and ours[child].state in ready:
                found.setdefault(parent, []).append(child)
            else:
                wait[parent] = BELOW
        return found, wait

    def _kept(
        self,
        c: Connection,
        token: WriteToken,
        refs: Sequence[Ref],
        children: Mapping[Ref, Sequence[Ref]],
        now: int,
        above: Above,
        asked: ProtectionSnapshot,
    ) -> dict[Ref, str]:
        """Return which marks a holder keeps, be it for the sake of one below them."""
        goes_with = {child: ref for ref in refs for child in children.get(ref, ())}
        every = [*refs, *goes_with]
        held = {**self._protections.kept(c, token, every, asked), **kept(self._db, c, token, every, now, above)}
        return {goes_with.get(ref, ref): who for ref, who in held.items()}

    def _over(
        self,
        c: Connection,
        token: WriteToken,
        refs: Sequence[Ref],
        terms: Mapping[Ref, ClaimFacts],
        allowance: int,
        now: int,
    ) -> set[Ref]:
        """Return the marks with which more objects would go in 24 hours than the limits allow."""
        batch = self._db.t.batch
        lately = and_(batch.c.instance == token.instance, batch.c.limited > 0, batch.c.claimed_at > now - DAY_MS)
        used = c.execute(select(func.coalesce(func.sum(batch.c.limited), 0)).where(lately)).scalar_one()
        over = set()
        for ref in refs:
            files = terms.get(ref, _NO_TERMS).files
            if used + files > allowance:
                over.add(ref)
            else:
                used += files
        return over

    def _absorb(self, c: Connection, token: WriteToken, refs: Sequence[Ref], now: int) -> None:
        """Claim the marks whose files are among those of the mark above them; their own stored files are dropped."""
        if not refs:
            return
        db, mark, file = self._db, self._db.t.mark, self._db.t.mark_file
        values: dict[str, Any] = {"state": "CLAIMED", "claimed_at": now, "batch": token.batch, "absorbed": True}
        values |= {"claimed_in": token.batch, "lease_epoch": token.lease.epoch, "quarantined_reason": None}
        c.execute(update(mark).where(mark.c.instance == token.instance, among(db, mark, refs)).values(**values))
        c.execute(delete(file).where(file.c.instance == token.instance, among(db, file, refs)))

    def held(self, token: WriteToken, refs: Sequence[Ref], above: Above) -> Mapping[Ref, str]:
        """Return which marks somebody keeps now, by the files that are stored for them so far, and who keeps them."""
        with deciding(self._db, token.instance) as c:
            now = self._db.now(c)
            prove(self._db, c, token, now=now)
            return {**self._protections.kept(c, token, refs), **kept(self._db, c, token, refs, now, above)}

    def _existing(self, token: WriteToken, refs: Sequence[Ref]) -> frozenset[Ref]:
        """Return those that are there: what was passed over and still exists is locked by an owner's transaction."""
        if not refs:
            return frozenset()
        mark = self._db.t.mark
        here = and_(mark.c.instance == token.instance, among(self._db, mark, refs))
        with self._db.read() as c:
            found = c.execute(select(mark.c.kind, mark.c.id).where(here))
            return frozenset(Ref(*row) for row in found)


def _free(row: Any, cutoff: int, terms: ClaimFacts) -> bool:
    """Return whether a mark may be claimed as far as its own row tells."""
    ready = row.state == "FENCED" or (row.state == "MARKED" and not terms.fenced)
    return bool(ready and row.quarantined_reason is None and row.ages_from <= cutoff)
