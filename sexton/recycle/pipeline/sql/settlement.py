"""Settle claimed marks after a deletion: move them to history, let them wait for a second pass, or count failures."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import MOST_SUM, as_rows, plus
from sexton.kernel.crash_points import reached
from sexton.marks.model import (
    MAX_FAILURES,
    POISON_RETRY_SECONDS,
    SEVERAL,
    MarkState,
    Reason,
    Ref,
    Settlement,
    Span,
    WriteToken,
)
from sexton.marks.sql.file_lists import drop_files, sum_files
from sexton.marks.sql.rows import children_of, named_by, refs_in
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.sql.batches import add_to_round, verify
from sexton.recycle.pipeline.sql.files import claimed_marks, own_spans

STILL_FOUND = "each listing finds objects: they are written still, or listed though they are deleted"
SUMS: dict[str, Any] = {"kind": Text(), "id": Text(), "objects": BigInteger(), "bytes": BigInteger()}
"""Columns of rows that say what was deleted of each mark."""


class SettlementStore:
    """CLAIMED → GONE."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def progress(self, token: WriteToken, refs: Sequence[Ref]) -> Sequence[DeletionProgress]:
        """Return claimed marks with the outcomes of their files so far; only this token writes these outcomes.

        Raises:
            LeaseLost: a newer attempt works on the batch; what it has settled must not be read as this one's work.
        """
        if not refs:
            return ()
        with self._db.write() as tx:
            verify(tx, token, shared=True)
            claimed = claimed_marks(self._db, tx, token, refs)
            spans = sorted({Span(row.batch, row.files_after, row.last_file) for row in claimed.values()})
            sums = sum_files(self._db, tx, spans, frozenset(refs))
            unquarantined = {ref: row for ref, row in claimed.items() if row.quarantined_reason is None}
            progress = {ref: DeletionProgress.of(row, sums.get(ref, ())) for ref, row in unquarantined.items()}
            # Marks that are removed together with those whose files are gone; only a prefix absorbs others.
            parents = [r for r, p in progress.items() if p.settlement is Settlement.GONE and p.prefix is not None]
            if parents:
                mark = self._db.t.mark
                below = [mark.c.instance == token.instance, children_of(mark, parents)]
                columns = (mark.c.parent_kind, mark.c.parent_id, mark.c.kind, mark.c.id)
                for row in tx.execute(select(*columns).where(*below, mark.c.absorbed.is_(True))):
                    progress[Ref(row[0], row[1])].absorbed.append(Ref(row[2], row[3]))
        return list(progress.values())

    def record_finished(self, token: WriteToken, refs: Sequence[Ref]) -> frozenset[Ref]:
        """Record that all files of these marks are gone, before their owner removes its records; return the marks.

        An older attempt must not remove records of a mark that a newer one keeps. Records of a mark that was discarded
        meanwhile stay too.

        Raises:
            LeaseLost: a newer attempt works on the batch.
        """
        mark = self._db.t.mark
        with self._db.write() as tx:
            verify(tx, token)
            is_finished = and_(mark.c.instance == token.instance, refs_in(mark, refs), _is_of(token, mark))
            finished = update(mark).where(is_finished).values(finished=True).returning(mark.c.kind, mark.c.id)
            return frozenset(Ref(*row) for row in tx.execute(finished))

    def lock_finished(self, connection: Connection, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return which of these recorded marks still exist; they do until the connection's transaction ends.

        Raises:
            LeaseLost: a newer attempt works on the batch.
        """
        mark = self._db.t.mark
        verify(connection, token)
        is_finished = and_(mark.c.instance == token.instance, refs_in(mark, refs), mark.c.finished)
        rows = connection.execute(select(mark.c.kind, mark.c.id).where(is_finished).with_for_update())
        return frozenset(Ref(*row) for row in rows)

    def settle(self, token: WriteToken, marks: Sequence[DeletionProgress], upload_grace_seconds: int) -> None:
        """Remove marks whose files are gone, count failures, leave the rest claimed."""
        if not marks:
            return
        mark = self._db.t.mark
        by_settlement: dict[Settlement, list[DeletionProgress]] = {settlement: [] for settlement in Settlement}
        for progress in marks:
            by_settlement[progress.settlement].append(progress)
        with self._db.write() as tx:
            now = self._db.now(tx)
            verify(tx, token)
            # Those that failed or wait still need their stored files. Absorbed marks have none since their claim: the
            # lists of its chunk, which may be damaged, are not read for them.
            still_needed = (Settlement.FAILED, Settlement.WAITING)
            settled = [m.ref for how, of_how in by_settlement.items() if how not in still_needed for m in of_how]
            spans = own_spans(self._db, tx, token, settled)
            gone, failed = by_settlement[Settlement.GONE], by_settlement[Settlement.FAILED]
            sums = [*map(_sums, gone), *(sums_row(ref, 0, 0) for m in gone for ref in m.absorbed)]
            constants = {"gone_at": now, "round": token.round, "discarded": None}
            moved = move_to_history(self._db, tx, token.instance, sums, _is_of(token, mark), **constants)
            # A mark that an operator discarded meanwhile was counted then.
            by_settlement[Settlement.GONE] = [m for m in gone if m.ref in moved]
            # A prefix is listed again once no upload can end.
            second_pass = {"first_pass_at": now, "next_try_at": now + upload_grace_seconds * 1000}
            again = by_settlement[Settlement.SECOND_PASS]
            self._keep_claimed(tx, token, [m for m in again if m.first_pass_at is None], **second_pass)
            # One that found objects counts as a failure: it must not be repeated without end, and unseen.
            found = [m for m in again if m.first_pass_at is not None]
            once_more = {"failures": mark.c.failures + 1}
            few = [m for m in found if m.failures + 1 < MAX_FAILURES]
            self._keep_claimed(tx, token, few, **once_more, **second_pass)
            endless = [replace(m, reason=STILL_FOUND) for m in found if m.failures + 1 >= MAX_FAILURES]
            poisoned = {"quarantined_reason": Reason.DELETE_FAILED, "next_try_at": now + POISON_RETRY_SECONDS * 1000}
            self._keep_claimed(tx, token, endless, **once_more, **poisoned)
            lacking = by_settlement[Settlement.LACKING]
            for reason in sorted({str(m.lacking) for m in lacking}):  # as it was judged, whatever the row has now
                of_reason = [m for m in lacking if m.lacking == reason]
                self._keep_claimed(tx, token, of_reason, quarantined_reason=reason)
            self._keep_claimed(tx, token, by_settlement[Settlement.CHANGED], quarantined_reason=Reason.CHANGED)
            often = [m for m in failed if m.failures + 1 >= MAX_FAILURES]
            self._keep_claimed(tx, token, [m for m in failed if m.failures + 1 < MAX_FAILURES], **once_more)
            self._keep_claimed(tx, token, often, **once_more, **poisoned)
            for span in spans:  # marks are locked before lists, here as everywhere
                drop_files(self._db, tx, span, settled)
            add_to_round(self._db, tx, token.round, _counts(by_settlement))
        reached("marks.removed")

    def _keep_claimed(
        self, tx: Connection, token: WriteToken, marks: Sequence[DeletionProgress], **values: Any
    ) -> None:
        """Set columns of marks that stay claimed, with their errors, and add what is gone of them now.

        What is gone of a mark that failed is added when it is settled: its stored files stay until then.
        """
        if not marks:
            return
        mark = self._db.t.mark
        now_gone = [sums_row(m.ref, 0, 0) if m.settlement is Settlement.FAILED else _sums(m) for m in marks]
        rows = [sums | {"error": m.reason} for sums, m in zip(now_gone, marks, strict=True)]
        given = as_rows(rows, **SUMS, error=Text())
        values |= {
            "objects_gone": mark.c.objects_gone + given.c.objects,
            "bytes_gone": plus(mark.c.bytes_gone, given.c.bytes),
            "last_error": func.coalesce(given.c.error, mark.c.last_error),
        }
        tx.execute(update(mark).where(named_by(mark, given, token.instance), _is_of(token, mark)).values(**values))


def move_to_history(
    db: Database,
    tx: Connection,
    instance: str,
    sums: Sequence[Mapping[str, Any]],
    condition: ColumnElement[bool],
    **constants: Any,
) -> frozenset[Ref]:
    """Move some marks to history, in one statement; return those moved.

    Args:
        db: the database.
        tx: the transaction.
        instance: whose marks they are.
        sums: what was deleted of each mark now, as rows of ``SUMS``.
        condition: which of the marks are moved.
        constants: ``gone_at``, in ms since 1970, and the columns ``round`` and ``discarded`` of all their rows.
    """
    if not sums:
        return frozenset()
    mark, history, deleted = db.t.mark, db.t.mark_history, as_rows(sums, **SUMS)
    of_mark = ("instance", "kind", "id", "parent_kind", "parent_id", "vault", "prefix", "keys", "owner_txn")
    copied = (*of_mark, "marked_at", "absorbed")
    gone_at = literal(constants["gone_at"], history.c.gone_at.type)
    computed: dict[str, ColumnElement[Any]] = {
        "claimed_at": func.coalesce(mark.c.claimed_at, gone_at),
        "batch": func.coalesce(mark.c.claimed_batch, mark.c.batch, 0),
        "objects": mark.c.objects_gone + deleted.c.objects,
        "bytes": plus(mark.c.bytes_gone, deleted.c.bytes),
        **{name: literal(value, history.c[name].type) for name, value in constants.items()},
    }
    columns = [*[mark.c[n] for n in copied], *[value.label(n) for n, value in computed.items()]]
    # The removal locks the marks, so one that another transaction moves meanwhile is not moved twice.
    removed = delete(mark).where(named_by(mark, deleted, instance), condition).returning(*columns).cte("removed")
    names = [*copied, *computed]
    insert = upsert(history).from_select(names, select(*[removed.c[n] for n in names]))
    # An owner's REPEATABLE READ transaction may have marked a gone id again: its snapshot showed no history yet. Only
    # where one is found: each row that may conflict costs a second record in the write-ahead log.
    refs = [Ref(row["kind"], row["id"]) for row in sums]
    in_history = select(history.c.id).where(history.c.instance == instance, refs_in(history, refs))
    if tx.execute(in_history).all():  # with LIMIT a planner would read the whole history instead
        replace = {n: insert.excluded[n] for n in computed}
        insert = insert.on_conflict_do_update(index_elements=["instance", "kind", "id"], set_=replace)
    return frozenset(Ref(*row) for row in tx.execute(insert.returning(history.c.kind, history.c.id)))


def sums_row(ref: Ref, objects: int, size: int) -> dict[str, Any]:
    """Return what was deleted of a mark, as a row of ``SUMS``; ``size`` in bytes."""
    return {"kind": ref.kind, "id": ref.id, "objects": objects, "bytes": min(size, MOST_SUM)}


def _is_of(token: WriteToken, mark: FromClause) -> ColumnElement[bool]:
    """Return the condition that a mark is claimed by the batch of a token, or with such a mark.

    An operator may have discarded the one that was read, and its owner may have marked the same id again. As
    expressions: rows are looked up by their primary key, and no planner reads every claimed mark instead.
    """
    is_of_batch = or_(mark.c.batch + 0 == token.batch, mark.c.absorbed.is_(True))
    return and_(mark.c.state + "" == MarkState.CLAIMED, is_of_batch)


def _sums(mark: DeletionProgress) -> dict[str, Any]:
    """Return what was deleted of a mark now, as a row of ``SUMS``."""
    return sums_row(mark.ref, mark.objects, mark.bytes)


def _counts(
    by_settlement: Mapping[Settlement, Sequence[DeletionProgress]],
) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """Return what to add to the round: marks that are removed, and a failure in each round in which a file fails. Pure.

    Objects that are gone were counted with their outcomes.
    """
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for settlement, marks in by_settlement.items():
        for m in marks:
            for vault, failed in m.failed.items():
                counts[m.ref.kind, vault]["failed"] += failed
            if settlement is Settlement.GONE:
                counts[m.ref.kind, m.vault]["removed"] += 1
                for child in m.absorbed:
                    counts[child.kind, SEVERAL]["removed"] += 1
    return counts
