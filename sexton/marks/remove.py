"""After the files: outcomes, the removal of records, history, and the second look at prefixes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, case, delete, func, literal, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sexton.crashpoints import reached
from sexton.db.engine import Database
from sexton.db.rows import in_list
from sexton.marks.fence import prove
from sexton.marks.model import (
    DONE,
    MAX_FAILURES,
    POISON_RETRY_SECONDS,
    Done,
    Hand,
    Page,
    Reason,
    Ref,
    Standing,
    Verdict,
)
from sexton.marks.policy import after_sweep
from sexton.marks.rows import among
from sexton.marks.tally import add
from sexton.storage.model import KeyResult, Outcome


class Removals:
    """CLAIMED → GONE."""

    _db: Database

    def record(self, hand: Hand, page: Page, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one statement; they only move towards done.

        A throttled key stays undone, so the same round tries it again.
        """
        db, file = self._db, self._db.t.mark_file
        alike: dict[tuple[str, str | None], list[int]] = {}
        measured = []
        for seq, r in zip(page.seqs, results, strict=True):
            if r.outcome is Outcome.THROTTLED:
                continue
            reason = r.reason[:500] or None
            if r.bytes is None:
                alike.setdefault((r.outcome, reason), []).append(seq)
            else:
                measured.append({"this": seq, "became": r.outcome, "why": reason, "size": r.bytes})
        open_ = and_(file.c.batch == hand.batch, or_(file.c.outcome.is_(None), file.c.outcome == Outcome.FAILED))
        with db.write() as c:
            prove(db, c, hand)
            for (outcome, reason), seqs in alike.items():
                these = update(file).where(open_, in_list(db, file.c.seq, seqs))
                c.execute(these.values(outcome=outcome, reason=reason))
            if measured:
                one = update(file).where(open_, file.c.seq == bindparam("this"))
                values: dict[str, Any] = {
                    "outcome": bindparam("became"),
                    "reason": bindparam("why"),
                    "bytes": bindparam("size"),
                }
                c.execute(one.values(**values), measured)
        reached("outcomes.recorded")

    def done(self, hand: Hand, kind: str) -> Done:
        """Return what of a kind went in the hand's round so far."""
        t = self._db.t.tally
        sums = [t.c.removed, t.c.deleted + t.c.hidden, t.c.bytes_freed + t.c.bytes_estimated]
        wanted = select(*[func.coalesce(func.sum(n), 0) for n in sums]).where(t.c.round == hand.round, t.c.kind == kind)
        with self._db.read() as c:
            return Done(*(int(n) for n in c.execute(wanted).one()))

    def settle(self, hand: Hand, refs: Sequence[Ref], upload_grace_seconds: int) -> Mapping[Verdict, int]:
        """Remove the records whose files are gone; count the failures; leave the rest claimed."""
        if not refs:
            return {}
        db = self._db
        with db.write() as c:
            now = db.now(c)
            prove(db, c, hand)
            decided: dict[Verdict, list[_Sums]] = {v: [] for v in Verdict}
            for sums in self._sums(c, hand, refs):
                decided[after_sweep(sums.standing)].append(sums)
            self._to_history(c, hand, decided[Verdict.GONE], now)
            self._swept(c, hand, decided[Verdict.SWEPT], now, upload_grace_seconds)
            self._failed(c, hand, decided[Verdict.FAILED], now)
            add(db, c, hand.round, _counts(decided))
        reached("marks.removed")
        return {v: len(rows) for v, rows in decided.items()}

    def _sums(self, c: Connection, hand: Hand, refs: Sequence[Ref]) -> list["_Sums"]:
        """Return the claimed marks with sums over their files, as they are now.

        Two look-ups and no join: the planner has no statistics of a batch made a second ago (seen: 2 s for 1,000).
        """
        db, mark, file = self._db, self._db.t.mark, self._db.t.mark_file
        size = case((file.c.outcome.in_((Outcome.DELETED, Outcome.HIDDEN)), file.c.bytes), else_=0)
        unmeasured = case((file.c.bytes.is_(None), 1), else_=0)
        per_outcome = (
            select(
                file.c.kind,
                file.c.id,
                file.c.outcome,
                func.count().label("files"),
                func.coalesce(func.sum(size), 0).label("bytes"),
                func.sum(unmeasured).label("unmeasured"),
                func.max(file.c.reason).label("reason"),
            )
            .where(file.c.instance == hand.instance, among(db, file, refs))
            .group_by(file.c.kind, file.c.id, file.c.outcome)
        )
        files: dict[Ref, dict[str | None, Any]] = {}
        for row in c.execute(per_outcome):
            files.setdefault(Ref(row.kind, row.id), {})[row.outcome] = row
        marks = c.execute(
            select(mark.c.kind, mark.c.id, mark.c.vault, mark.c.prefix, mark.c.bytes, mark.c.swept_at, mark.c.failures)
            .where(mark.c.instance == hand.instance, among(db, mark, refs))
            .where(mark.c.state == "CLAIMED", mark.c.batch == hand.batch, mark.c.quarantined_reason.is_(None))
        )
        return [_Sums(row, files.get(Ref(row.kind, row.id), {})) for row in marks]

    def _to_history(self, c: Connection, hand: Hand, gone: Sequence["_Sums"], now: int) -> None:
        """Files are confirmed gone: a history row each, then the records go (else SQLite's trigger refuses)."""
        if not gone:
            return
        db, mark, history, file = self._db, self._db.t.mark, self._db.t.mark_history, self._db.t.mark_file
        names = ("instance", "kind", "id", "parent_kind", "parent_id", "vault", "prefix", "keys")
        kept = (*names, "marked_at", "claimed_at")
        constant = {"gone_at": now, "batch": hand.batch, "round": hand.round}
        one = select(
            *[mark.c[n] for n in kept],
            (mark.c.objects_gone + bindparam("objects", type_=BigInteger())).label("objects"),
            (mark.c.bytes_gone + bindparam("bytes", type_=BigInteger())).label("bytes"),
            *[literal(v, history.c[n].type).label(n) for n, v in constant.items()],
        ).where(mark.c.instance == hand.instance, mark.c.kind == bindparam("kind"), mark.c.id == bindparam("id"))
        numbers = [{"kind": m.ref.kind, "id": m.ref.id, "objects": m.gone[0], "bytes": m.gone[1]} for m in gone]
        upsert = (postgresql if db.dialect == "postgresql" else sqlite).insert(history)
        told = upsert.from_select([*kept, "objects", "bytes", *constant], one)
        # An owner's REPEATABLE READ transaction may have marked a gone id anew: its snapshot showed no history yet.
        again = {n: told.excluded[n] for n in ("objects", "bytes", "claimed_at", "gone_at", "batch", "round")}
        c.execute(told.on_conflict_do_update(index_elements=["instance", "kind", "id"], set_=again), numbers)
        for table in (file, mark):
            c.execute(delete(table).where(table.c.instance == hand.instance, among(db, table, [m.ref for m in gone])))

    def _swept(self, c: Connection, hand: Hand, swept: Sequence["_Sums"], now: int, grace_seconds: int) -> None:
        """A clean first sweep of a prefix: stay claimed, look once more when no upload can be under way any more."""
        mark, file = self._db.t.mark, self._db.t.mark_file
        if not swept:
            return
        one = update(mark).where(
            mark.c.instance == hand.instance, mark.c.kind == bindparam("a_kind"), mark.c.id == bindparam("an_id")
        )
        values = {
            "swept_at": now,
            "next_try_at": now + grace_seconds * 1000,
            "objects_gone": mark.c.objects_gone + bindparam("more_objects", type_=BigInteger()),
            "bytes_gone": mark.c.bytes_gone + bindparam("more_bytes", type_=BigInteger()),
        }
        numbers = [
            {"a_kind": m.ref.kind, "an_id": m.ref.id, "more_objects": m.gone[0], "more_bytes": m.gone[1]} for m in swept
        ]
        c.execute(one.values(**values), numbers)
        its = among(self._db, file, [m.ref for m in swept])
        c.execute(delete(file).where(file.c.instance == hand.instance, its))

    def _failed(self, c: Connection, hand: Hand, failed: Sequence["_Sums"], now: int) -> None:
        mark = self._db.t.mark
        for m in failed:
            values: dict[str, Any] = {"failures": mark.c.failures + 1, "last_error": m.reason}
            if m.failures + 1 >= MAX_FAILURES:
                values |= {"quarantined_reason": Reason.DELETE_FAILED, "next_try_at": now + POISON_RETRY_SECONDS * 1000}
            this = and_(mark.c.instance == hand.instance, mark.c.kind == m.ref.kind, mark.c.id == m.ref.id)
            c.execute(update(mark).where(this).values(**values))


class _Sums:
    """A claimed mark with what became of its files so far."""

    def __init__(self, mark: Any, files: Mapping[str | None, Any]) -> None:
        self.ref = Ref(mark.kind, mark.id)
        self.vault: str = mark.vault
        self.failures: int = mark.failures
        self.objects = {o: int(files[o].files) if o in files else 0 for o in Outcome}
        done = sum(self.objects[o] for o in DONE)
        total = sum(int(row.files) for row in files.values())
        self.standing = Standing(mark.prefix, mark.swept_at, total, done, self.objects[Outcome.FAILED])
        deleted, hidden, failed = (files.get(o) for o in (Outcome.DELETED, Outcome.HIDDEN, Outcome.FAILED))
        self.reason = failed.reason if failed else None
        self.bytes_freed = int(deleted.bytes) if deleted else 0
        self.bytes_hidden = int(hidden.bytes) if hidden else 0
        self.bytes_estimated = int(mark.bytes) if deleted and deleted.unmeasured else 0

    @property
    def gone(self) -> tuple[int, int]:
        """Return objects and bytes that are gone: measured, or what the owner said where nothing was measured."""
        objects = self.objects[Outcome.DELETED] + self.objects[Outcome.HIDDEN]
        return objects, self.bytes_freed + self.bytes_estimated


def _counts(decided: Mapping[Verdict, Sequence[_Sums]]) -> dict[tuple[str, str], dict[str, int]]:
    """Return the tally: an object is counted when its mark is finished with it, a failure in each round it fails."""
    per: dict[tuple[str, str], Counter[str]] = {}
    for verdict, marks in decided.items():
        for m in marks:
            n = per.setdefault((m.ref.kind, m.vault), Counter())
            n["failed"] += m.objects[Outcome.FAILED]
            if verdict not in (Verdict.GONE, Verdict.SWEPT):
                continue
            n["removed"] += verdict is Verdict.GONE
            for outcome in DONE:
                n[outcome.value] += m.objects[outcome]
            n["bytes_freed"] += m.bytes_freed
            n["bytes_hidden"] += m.bytes_hidden
            n["bytes_estimated"] += m.bytes_estimated
    return {key: {name: n[name] for name in n if n[name]} for key, n in per.items() if any(n.values())}
