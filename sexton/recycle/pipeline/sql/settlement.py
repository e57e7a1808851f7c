"""After the files: outcomes, the removal of records, history, and the second look at prefixes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.marks.model import (
    MAX_FAILURES,
    POISON_RETRY_SECONDS,
    SEVERAL,
    DeletedSoFar,
    FilePage,
    Reason,
    Ref,
    Settlement,
    WriteToken,
)
from sexton.marks.sql.rows import among, below
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.progress import DeletionProgress
from sexton.recycle.pipeline.sql.round_counts import add
from sexton.recycle.pipeline.sql.write_token import prove
from sexton.storage.model import KeyOutcome, KeyResult

AUDITED_AT_ONCE = 10_000
RECORD_TRIES = 3
"""How often outcomes are stored while somebody's lock is in the way: what is not stored is told as absent later."""


class Removals:
    """CLAIMED → GONE."""

    _db: Database

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one statement; they only move towards done.

        A throttled key stays undone, so the same round tries it again.
        """
        db, file = self._db, self._db.t.mark_file
        alike: dict[tuple[str, str | None], list[int]] = {}
        measured = []
        for seq, r in zip(page.seqs, results, strict=True):
            if r.outcome is KeyOutcome.THROTTLED:
                continue
            reason = r.reason[:500] or None
            if r.bytes is None:
                alike.setdefault((r.outcome, reason), []).append(seq)
            else:
                measured.append({"this": seq, "became": r.outcome, "why": reason, "size": r.bytes})
        open_ = and_(file.c.batch == token.batch, or_(file.c.outcome.is_(None), file.c.outcome == KeyOutcome.FAILED))
        statements: list[tuple[Any, Any]] = [
            (update(file).where(open_, in_list(db, file.c.seq, seqs)).values(outcome=outcome, reason=reason), None)
            for (outcome, reason), seqs in alike.items()
        ]
        if measured:
            values: dict[str, Any] = {
                "outcome": bindparam("became"),
                "reason": bindparam("why"),
                "bytes": bindparam("size"),
            }
            one = update(file).where(open_, file.c.seq == bindparam("this")).values(**values)
            statements.append((one, measured))
        for left in reversed(range(RECORD_TRIES)):
            try:
                with db.write() as c:
                    prove(db, c, token, shared=True)
                    for statement, given in statements:
                        c.execute(statement, given)
                break
            except OperationalError as e:  # the batch's row: the thread that claims holds it
                if not (left and is_locked(e)):
                    raise
        reached("outcomes.recorded")

    def done(self, token: WriteToken, kind: str) -> DeletedSoFar:
        """Return what of a kind went in the hand's round so far."""
        t = self._db.t.tally
        sums = [t.c.removed, t.c.deleted + t.c.hidden, t.c.bytes_freed + t.c.bytes_estimated]
        wanted = select(*[func.coalesce(func.sum(n), 0) for n in sums]).where(
            t.c.round == token.round, t.c.kind == kind
        )
        with self._db.read() as c:
            return DeletedSoFar(*(int(n) for n in c.execute(wanted).one()))

    def outcomes(self, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Sequence[AuditRow]]:
        """Yield what became of the files of marks, some thousands at a time, for the audit.

        Under the batch that tried them: a second look that was cut short is told by the one that finishes it.
        """
        if refs:
            file = self._db.t.mark_file
            its = and_(file.c.instance == token.instance, among(self._db, file, refs))
            yield from self._outcomes(token, its, (0, 0))

    def outcomes_between(self, token: WriteToken, after: int, to: int) -> Iterator[Sequence[AuditRow]]:
        """Yield what became of the batch's files, by their numbers after one up to another."""
        file = self._db.t.mark_file
        yield from self._outcomes(token, and_(file.c.batch == token.batch, file.c.seq <= to), (token.batch, after))

    def tried_between(self, token: WriteToken, after: int, to: int) -> int:
        """Return how many of the batch's files after one up to another have an outcome."""
        file = self._db.t.mark_file
        its = and_(file.c.batch == token.batch, file.c.seq > after, file.c.seq <= to, file.c.outcome.is_not(None))
        with self._db.read() as c:
            return int(c.execute(select(func.count()).select_from(file).where(its)).scalar_one())

    def _outcomes(
        self, token: WriteToken, its: ColumnElement[bool], after: tuple[int, int]
    ) -> Iterator[Sequence[AuditRow]]:
        db, file = self._db, self._db.t.mark_file
        names = ("batch", "seq", "kind", "id", "vault", "key", "bytes", "outcome")
        told = [*(file.c[n] for n in names), func.coalesce(file.c.reason, "")]
        while True:
            beyond = tuple_(file.c.batch, file.c.seq) > tuple_(*(literal(n, BigInteger()) for n in after))
            wanted = select(*told).where(its, file.c.outcome.is_not(None), beyond)
            with db.read() as c:
                at = db.now(c)
                rows = c.execute(wanted.order_by(file.c.batch, file.c.seq).limit(AUDITED_AT_ONCE)).all()
            if rows:
                after = (rows[-1].batch, rows[-1].seq)
                yield [AuditRow(at, token.instance, token.round, *row) for row in rows]
            if len(rows) < AUDITED_AT_ONCE:
                return

    def standings(self, token: WriteToken, refs: Sequence[Ref]) -> Sequence[DeletionProgress]:
        """Return what is to become of claimed marks, by the outcomes stored so far; nobody else writes them."""
        if not refs:
            return ()
        with self._db.read() as c:
            return self._sums(c, token, refs)

    def settle(
        self, token: WriteToken, standings: Sequence[DeletionProgress], upload_grace_seconds: int
    ) -> Mapping[Settlement, int]:
        """Remove the records whose files are gone; count the failures; leave the rest claimed."""
        if not standings:
            return {}
        db = self._db
        with db.write() as c:
            now = db.now(c)
            prove(db, c, token)
            decided: dict[Settlement, list[DeletionProgress]] = {v: [] for v in Settlement}
            for sums in standings:
                decided[sums.verdict].append(sums)
            self._to_history(c, token, decided[Settlement.GONE], now)
            self._swept(c, token, decided[Settlement.SWEPT], now, upload_grace_seconds)
            self._set_aside(c, token, [*decided[Settlement.LACKING], *decided[Settlement.CHANGED]])
            self._failed(c, token, decided[Settlement.FAILED], now)
            add(db, c, token.round, _counts(decided))
        reached("marks.removed")
        return {v: len(rows) for v, rows in decided.items()}

    def _sums(self, c: Connection, token: WriteToken, refs: Sequence[Ref]) -> list[DeletionProgress]:
        """Return the claimed marks with sums over their files, as they are now.

        Two look-ups and no join: the planner has no statistics of a batch made a second ago (seen: 2 s for 1,000).
        """
        db, mark, file = self._db, self._db.t.mark, self._db.t.mark_file
        size = case((file.c.outcome.in_((KeyOutcome.DELETED, KeyOutcome.HIDDEN)), file.c.bytes), else_=0)
        unmeasured = case((file.c.bytes.is_(None), 1), else_=0)
        per_outcome = (
            select(
                file.c.kind,
                file.c.id,
                file.c.vault,
                file.c.outcome,
                func.count().label("files"),
                func.coalesce(func.sum(size), 0).label("bytes"),
                func.sum(unmeasured).label("unmeasured"),
                func.max(file.c.reason).label("reason"),
            )
            .where(file.c.instance == token.instance, among(db, file, refs))
            .group_by(file.c.kind, file.c.id, file.c.vault, file.c.outcome)
        )
        files: dict[Ref, list[Any]] = {}
        for row in c.execute(per_outcome):
            files.setdefault(Ref(row.kind, row.id), []).append(row)
        names = ("kind", "id", "vault", "prefix", "bytes", "swept_at", "failures", "lacking")
        marks = c.execute(
            select(*[mark.c[n] for n in names])
            .where(mark.c.instance == token.instance, among(db, mark, refs))
            .where(mark.c.state == "CLAIMED", mark.c.batch == token.batch, mark.c.quarantined_reason.is_(None))
        ).all()
        found = {Ref(m.kind, m.id): DeletionProgress.of(m, files.get(Ref(m.kind, m.id), ())) for m in marks}
        self._add_absorbed(c, token, found)
        return list(found.values())

    def _add_absorbed(self, c: Connection, token: WriteToken, found: Mapping[Ref, DeletionProgress]) -> None:
        """Find the marks that go with those that are gone now."""
        mark = self._db.t.mark
        # Only what has a prefix absorbs.
        gone = [
            ref for ref, sums in found.items() if sums.verdict is Settlement.GONE and sums.standing.prefix is not None
        ]
        its = and_(mark.c.instance == token.instance, below(self._db, mark, gone), mark.c.absorbed.is_(True))
        names = (mark.c.parent_kind, mark.c.parent_id, mark.c.kind, mark.c.id)
        for row in c.execute(select(*names).where(its)) if gone else ():
            found[Ref(row[0], row[1])].absorbed.append(Ref(row[2], row[3]))

    def _to_history(self, c: Connection, token: WriteToken, gone: Sequence[DeletionProgress], now: int) -> None:
        """Files are confirmed gone: a history row each, then the records go (else SQLite's trigger refuses)."""
        if not gone:
            return
        db, mark, history, file = self._db, self._db.t.mark, self._db.t.mark_history, self._db.t.mark_file
        names = ("instance", "kind", "id", "parent_kind", "parent_id", "vault", "prefix", "keys")
        kept = (*names, "marked_at", "claimed_at", "absorbed")
        constant = {"gone_at": now, "round": token.round}
        claimed_in = func.coalesce(mark.c.claimed_in, token.batch).label("batch")
        one = select(
            *[mark.c[n] for n in kept],
            claimed_in,
            (mark.c.objects_gone + bindparam("objects", type_=BigInteger())).label("objects"),
            (mark.c.bytes_gone + bindparam("bytes", type_=BigInteger())).label("bytes"),
            *[literal(v, history.c[n].type).label(n) for n, v in constant.items()],
        ).where(mark.c.instance == token.instance, mark.c.kind == bindparam("kind"), mark.c.id == bindparam("id"))
        numbers = [{"kind": m.ref.kind, "id": m.ref.id, "objects": m.gone[0], "bytes": m.gone[1]} for m in gone]
        with_them = [ref for m in gone for ref in m.absorbed]
        numbers += [{"kind": ref.kind, "id": ref.id, "objects": 0, "bytes": 0} for ref in with_them]
        upsert = (postgresql if db.dialect == "postgresql" else sqlite).insert(history)
        told = upsert.from_select([*kept, "batch", "objects", "bytes", *constant], one)
        # An owner's REPEATABLE READ transaction may have marked a gone id anew: its snapshot showed no history yet.
        again = {n: told.excluded[n] for n in ("objects", "bytes", "claimed_at", "gone_at", "batch", "round")}
        c.execute(told.on_conflict_do_update(index_elements=["instance", "kind", "id"], set_=again), numbers)
        refs = [*(m.ref for m in gone), *with_them]
        for table in (file, mark):
            c.execute(delete(table).where(table.c.instance == token.instance, among(db, table, refs)))

    def _swept(
        self, c: Connection, token: WriteToken, swept: Sequence[DeletionProgress], now: int, grace_seconds: int
    ) -> None:
        """A clean first sweep of a prefix: stay claimed, look once more when no upload can be under way any more."""
        mark, file = self._db.t.mark, self._db.t.mark_file
        if not swept:
            return
        one = update(mark).where(
            mark.c.instance == token.instance, mark.c.kind == bindparam("a_kind"), mark.c.id == bindparam("an_id")
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
        c.execute(delete(file).where(file.c.instance == token.instance, its))

    def _set_aside(self, c: Connection, token: WriteToken, marks: Sequence[DeletionProgress]) -> None:
        """Keep the records of marks whose files are gone only in part, by the owner's fault or because one changed."""
        mark, file = self._db.t.mark, self._db.t.mark_file
        for m in marks:
            objects, size = m.gone
            values: dict[str, Any] = {"quarantined_reason": Reason.CHANGED, "last_error": m.reason}
            if m.verdict is Settlement.LACKING:
                values = {"quarantined_reason": m.standing.lacking}
            values |= {"objects_gone": mark.c.objects_gone + objects, "bytes_gone": mark.c.bytes_gone + size}
            this = and_(mark.c.instance == token.instance, mark.c.kind == m.ref.kind, mark.c.id == m.ref.id)
            c.execute(update(mark).where(this).values(**values))
        its = among(self._db, file, [m.ref for m in marks])
        c.execute(delete(file).where(file.c.instance == token.instance, its))

    def _failed(self, c: Connection, token: WriteToken, failed: Sequence[DeletionProgress], now: int) -> None:
        mark = self._db.t.mark
        for m in failed:
            values: dict[str, Any] = {"failures": mark.c.failures + 1, "last_error": m.reason}
            if m.failures + 1 >= MAX_FAILURES:
                values |= {"quarantined_reason": Reason.DELETE_FAILED, "next_try_at": now + POISON_RETRY_SECONDS * 1000}
            this = and_(mark.c.instance == token.instance, mark.c.kind == m.ref.kind, mark.c.id == m.ref.id)
            c.execute(update(mark).where(this).values(**values))


def _counts(decided: Mapping[Settlement, Sequence[DeletionProgress]]) -> dict[tuple[str, str], dict[str, int]]:
    """Return the tally: an object is counted when its mark is finished with it, a failure in each round it fails."""
    per: dict[tuple[str, str], Counter[str]] = {}
    for verdict, marks in decided.items():
        for m in marks:
            home = per.setdefault((m.ref.kind, m.vault), Counter())
            for vault, counts in m.counts(verdict).items():
                per.setdefault((m.ref.kind, vault), Counter()).update(counts)
            if verdict is Settlement.GONE:
                home["removed"] += 1
                for child in m.absorbed:
                    per.setdefault((child.kind, SEVERAL), Counter())["removed"] += 1
    return {key: {name: n[name] for name in n if n[name]} for key, n in per.items() if any(n.values())}
