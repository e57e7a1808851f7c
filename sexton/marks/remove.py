"""After the files: outcomes, the removal of records, history, and the second look at prefixes."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, and_, case, delete, func, insert, literal, or_, select, update

from sexton.crashpoints import reached
from sexton.db.engine import Database
from sexton.db.rows import as_rows
from sexton.marks.fence import prove
from sexton.marks.model import MAX_FAILURES, Hand, Page, Reason, Ref, Standing, Verdict
from sexton.marks.policy import after_sweep
from sexton.marks.rows import given_refs
from sexton.marks.tally import add
from sexton.storage.model import KeyResult, Outcome

DONE = (Outcome.DELETED, Outcome.ABSENT, Outcome.HIDDEN)


class Removals:
    """CLAIMED → GONE."""

    _db: Database

    def record(self, hand: Hand, page: Page, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one statement; they only move towards done.

        A throttled key stays undone, so the same round tries it again.
        """
        db, file = self._db, self._db.t.mark_file
        told = [
            {"seq": seq, "outcome": r.outcome, "reason": r.reason[:500] or None, "bytes": r.bytes}
            for seq, r in zip(page.seqs, results, strict=True)
            if r.outcome is not Outcome.THROTTLED
        ]
        given = as_rows(db, told, seq=BigInteger(), outcome=Text(), reason=Text(), bytes=BigInteger())
        with db.write() as c:
            prove(db, c, hand)
            c.execute(
                update(file)
                .where(file.c.batch == hand.batch, file.c.seq == given.c.seq)
                .where(or_(file.c.outcome.is_(None), file.c.outcome == Outcome.FAILED))
                .values(
                    outcome=given.c.outcome,
                    reason=given.c.reason,
                    bytes=func.coalesce(given.c.bytes, file.c.bytes),
                )
            )
        reached("outcomes.recorded")

    def settle(self, hand: Hand, refs: Sequence[Ref], upload_grace_seconds: int) -> Mapping[Verdict, int]:
        """Remove the records whose files are gone; count the failures; leave the rest claimed."""
        if not refs:
            return {}
        db = self._db
        with db.write() as c:
            now = db.now(c)
            prove(db, c, hand)
            sums = self._sums(c, hand, refs)
            decided: dict[Verdict, list[Any]] = {v: [] for v in Verdict}
            for row in sums:
                decided[after_sweep(_standing(row))].append(row)
            self._to_history(c, hand, decided[Verdict.GONE], now)
            self._swept(c, hand, decided[Verdict.SWEPT], now, upload_grace_seconds)
            self._failed(c, hand, decided[Verdict.FAILED])
            add(db, c, hand.round, _counts(decided))
        reached("marks.removed")
        return {v: len(rows) for v, rows in decided.items()}

    def _sums(self, c: Connection, hand: Hand, refs: Sequence[Ref]) -> Sequence[Any]:
        """Return the claimed marks with sums over their files, as they are now."""
        mark, file = self._db.t.mark, self._db.t.mark_file
        given = given_refs(self._db, refs)
        here = and_(mark.c.instance == hand.instance, mark.c.kind == given.c.kind, mark.c.id == given.c.id)
        its = and_(file.c.instance == mark.c.instance, file.c.kind == mark.c.kind, file.c.id == mark.c.id)

        def count(outcome: str) -> Any:
            return func.coalesce(func.sum(case((file.c.outcome == outcome, 1), else_=0)), 0)

        def size(outcome: str) -> Any:
            return func.coalesce(func.sum(case((file.c.outcome == outcome, file.c.bytes), else_=0)), 0)

        unmeasured = case((and_(file.c.outcome == "deleted", file.c.bytes.is_(None)), 1), else_=0)
        names = ("kind", "id", "parent_kind", "parent_id", "vault", "prefix", "bytes", "swept_at", "failures")
        own = [mark.c[n] for n in (*names, "marked_at", "claimed_at", "objects_gone", "bytes_gone")]
        return c.execute(
            select(
                *own,
                func.count(file.c.seq).label("files"),
                *[count(o).label(o) for o in ("deleted", "absent", "hidden", "failed")],
                size("deleted").label("bytes_deleted"),
                size("hidden").label("bytes_hidden"),
                func.coalesce(func.sum(unmeasured), 0).label("unmeasured"),
                func.max(file.c.reason).label("reason"),
            )
            .select_from(given.join(mark, here).outerjoin(file, its))
            .where(mark.c.state == "CLAIMED", mark.c.batch == hand.batch, mark.c.quarantined_reason.is_(None))
            .group_by(*own)
        ).all()

    def _to_history(self, c: Connection, hand: Hand, rows: Sequence[Any], now: int) -> None:
        """Files are confirmed gone: one history row each, then the records go. History first, or a trigger refuses."""
        if not rows:
            return
        db, mark, history, file = self._db, self._db.t.mark, self._db.t.mark_history, self._db.t.mark_file
        given = as_rows(
            db,
            ({"kind": r.kind, "id": r.id, "objects": r.deleted + r.hidden, "bytes": _bytes(r)} for r in rows),
            kind=Text(),
            id=Text(),
            objects=BigInteger(),
            bytes=BigInteger(),
        )
        here = and_(mark.c.instance == hand.instance, mark.c.kind == given.c.kind, mark.c.id == given.c.id)
        kept = (
            "instance",
            "kind",
            "id",
            "parent_kind",
            "parent_id",
            "vault",
            "prefix",
            "keys",
            "marked_at",
            "claimed_at",
        )
        constant = {"gone_at": now, "batch": hand.batch, "round": hand.round}
        told = select(
            *[mark.c[n] for n in kept],
            (mark.c.objects_gone + given.c.objects).label("objects"),
            (mark.c.bytes_gone + given.c.bytes).label("bytes"),
            *[literal(v, history.c[n].type).label(n) for n, v in constant.items()],
        ).select_from(given.join(mark, here))
        c.execute(insert(history).from_select([*kept, "objects", "bytes", *constant], told))
        for table in (file, mark):
            named = and_(table.c.kind == given.c.kind, table.c.id == given.c.id)
            c.execute(delete(table).where(table.c.instance == hand.instance, select(1).where(named).exists()))

    def _swept(self, c: Connection, hand: Hand, rows: Sequence[Any], now: int, grace_seconds: int) -> None:
        """A clean first sweep of a prefix: stay claimed, look once more when no upload can be under way any more."""
        mark, file = self._db.t.mark, self._db.t.mark_file
        for r in rows:
            this = and_(mark.c.instance == hand.instance, mark.c.kind == r.kind, mark.c.id == r.id)
            c.execute(
                update(mark)
                .where(this)
                .values(
                    swept_at=now,
                    next_try_at=now + grace_seconds * 1000,
                    objects_gone=mark.c.objects_gone + r.deleted + r.hidden,
                    bytes_gone=mark.c.bytes_gone + _bytes(r),
                )
            )
            its = and_(file.c.instance == hand.instance, file.c.kind == r.kind, file.c.id == r.id)
            c.execute(delete(file).where(its))

    def _failed(self, c: Connection, hand: Hand, rows: Sequence[Any]) -> None:
        mark = self._db.t.mark
        for r in rows:
            poison = Reason.DELETE_FAILED if r.failures + 1 >= MAX_FAILURES else None
            c.execute(
                update(mark)
                .where(mark.c.instance == hand.instance, mark.c.kind == r.kind, mark.c.id == r.id)
                .values(failures=mark.c.failures + 1, last_error=r.reason, quarantined_reason=poison)
            )


def _standing(row: Any) -> Standing:
    done = row.deleted + row.absent + row.hidden
    return Standing(Ref(row.kind, row.id), row.prefix, row.swept_at, row.failures, row.files, done, row.failed)


def _bytes(row: Any) -> int:
    """Return what was freed: measured, or what the owner said where nothing was measured."""
    return int(row.bytes_deleted) + (int(row.bytes) if row.unmeasured else 0)


def _counts(decided: Mapping[Verdict, Sequence[Any]]) -> dict[tuple[str, str], dict[str, int]]:
    """Return the tally: an object is counted when its mark is finished with it, a failure in each round it fails."""
    per: dict[tuple[str, str], dict[str, int]] = {}
    for verdict, rows in decided.items():
        for r in rows:
            n = per.setdefault(
                (r.kind, r.vault), dict.fromkeys(("removed", "failed", "deleted", "absent", "hidden"), 0)
            )
            n["failed"] += r.failed
            if verdict not in (Verdict.GONE, Verdict.SWEPT):
                continue
            n["removed"] += verdict is Verdict.GONE
            for outcome in ("deleted", "absent", "hidden"):
                n[outcome] += getattr(r, outcome)
            sizes = {"bytes_freed": r.bytes_deleted, "bytes_hidden": r.bytes_hidden}
            sizes["bytes_estimated"] = r.bytes if r.unmeasured else 0
            for name, value in sizes.items():
                n[name] = n.get(name, 0) + int(value)
    return per
