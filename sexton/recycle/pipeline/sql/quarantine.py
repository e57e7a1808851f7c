"""Quarantine marks, list them for operators, and retry or discard them.

Some are retried without an operator: UNKNOWN_VAULT when the vault is added, DELETE_FAILED once a day.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, or_, select, true, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.marks.model import DONE, RESOLVED_AGAIN, MarkState, Reason, Ref, Unresolvable, WriteToken
from sexton.marks.sql.file_lists import drop_files, find_spans, remove_damaged_lists, sum_files
from sexton.marks.sql.leases import may_be_deleting, seconds_of_requests
from sexton.marks.sql.rows import children_of, named_by, refs_in
from sexton.recycle.model import NotQuarantined
from sexton.recycle.pipeline.model import Quarantined
from sexton.recycle.pipeline.sql.batches import verify
from sexton.recycle.pipeline.sql.settlement import move_to_history, sums_row

AWAITS_SECOND_PASS = "SWEPT"
"""The reason shown for a mark that waits for its second pass."""


class QuarantineStore:
    """Quarantined marks, as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def quarantine(self, token: WriteToken, unresolvable: Sequence[Unresolvable]) -> None:
        """Quarantine marks with a reason; their state does not change.

        A mark that changed since the round read it is skipped (an owner may have marked the same id again), and so is a
        mark whose vault was added meanwhile. A mark that an owner's transaction locks is resolved again in the next
        round.
        """
        if not unresolvable:
            return
        mark, vault, db = self._db.t.mark, self._db.t.vault, self._db
        by_ref = {u.mark.ref: u for u in unresolvable}
        # Under the guard, because registering a vault frees the marks that wait for it.
        with deciding(db, token.instance) as tx:
            verify(tx, token)
            in_question = and_(mark.c.instance == token.instance, refs_in(mark, by_ref))
            columns = (mark.c.kind, mark.c.id, mark.c.retention_starts_at, mark.c.vault)
            # A child may have been claimed with its parent meanwhile.
            in_question = and_(in_question, or_(mark.c.state != MarkState.CLAIMED, mark.c.batch == token.batch))
            rows = tx.execute(select(*columns).where(in_question).with_for_update(skip_locked=True)).all()
            vaults = set(tx.execute(select(vault.c.name).where(vault.c.instance == token.instance)).scalars())
            reasons = []
            for row in rows:
                problem = by_ref[Ref(row.kind, row.id)]
                as_read = (problem.mark.retention_starts_at, problem.mark.vault)
                is_known_now = problem.reason is Reason.UNKNOWN_VAULT and row.vault in vaults
                if (row.retention_starts_at, row.vault) == as_read and not is_known_now:
                    error = problem.detail[:1000]
                    reasons.append({"kind": row.kind, "id": row.id, "reason": problem.reason, "error": error})
            given = as_rows(reasons, kind=Text(), id=Text(), reason=Text(), error=Text())
            values = {"quarantined_reason": given.c.reason, "last_error": given.c.error}
            tx.execute(update(mark).where(named_by(mark, given, token.instance)).values(**values))

    def retry_failed(self, instance: str) -> None:
        """Lift, once a day, the quarantine of claimed marks whose deletes failed: the cause may have been fixed."""
        mark = self._db.t.mark
        with self._db.write() as tx:
            failed = and_(mark.c.state == MarkState.CLAIMED, mark.c.quarantined_reason == Reason.DELETE_FAILED)
            due = and_(mark.c.instance == instance, failed, mark.c.next_try_at <= self._db.now(tx))
            tx.execute(update(mark).where(due).values(quarantined_reason=None))

    def find_discardable(self, instance: str, ref: Ref) -> tuple[Quarantined, Sequence[str]] | None:
        """Return a mark that is quarantined, or waits for its second pass, with its keys; None: it is neither."""
        mark = self._db.t.mark
        can_be = or_(mark.c.quarantined_reason.is_not(None), mark.c.first_pass_at.is_not(None))
        with self._db.read() as c:
            row = c.execute(select(mark).where(mark.c.instance == instance, self._is(ref), can_be)).one_or_none()
        return None if row is None else (_value(row), row._mapping["keys"] or ())

    def list(
        self, instance: str | None = None, reason: str | None = None, ref: Ref | None = None, limit: int = 100
    ) -> Sequence[Quarantined]:
        """Return quarantined marks, in order of instance, kind and id."""
        mark = self._db.t.mark
        query = select(mark).where(mark.c.quarantined_reason.is_not(None))
        if instance is not None:
            query = query.where(mark.c.instance == instance)
        if reason is not None:
            query = query.where(mark.c.quarantined_reason == reason)
        if ref is not None:
            query = query.where(self._is(ref))
        with self._db.read() as c:
            rows = c.execute(query.order_by(mark.c.instance, mark.c.kind, mark.c.id).limit(limit)).all()
        return [_value(r) for r in rows]

    def retry(
        self, instance: str, *, ref: Ref | None = None, reason: str | None = None, but: Reason | None = None
    ) -> int:
        """Let the next round retry marks: one, those of a reason, or all of an instance; return how many.

        A claimed prefix whose deletes failed is resolved and listed again; other claimed marks keep their files.

        ``but``: a reason whose marks stay quarantined.

        Raises:
            UnknownInstance: no such instance.
            NotQuarantined: the one mark named is not quarantined.
        """
        mark = self._db.t.mark
        chosen = and_(mark.c.instance == instance, mark.c.quarantined_reason.is_not(None))
        if ref is not None:
            chosen = and_(chosen, self._is(ref))
        if reason is not None:
            chosen = and_(chosen, mark.c.quarantined_reason == reason)
        if but is not None:
            chosen = and_(chosen, mark.c.quarantined_reason != but)
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            lifted = {"quarantined_reason": None, "failures": 0, "next_try_at": now}
            # Their files were dropped: a second pass resolves them again. Others still lack what their claim found.
            # A prefix is listed again too: a listing may have named a key that can never be deleted, such as a/../b.
            failed_prefix = and_(mark.c.quarantined_reason == Reason.DELETE_FAILED, mark.c.prefix.is_not(None))
            listed_again = or_(mark.c.quarantined_reason.in_([str(r) for r in RESOLVED_AGAIN]), failed_prefix)
            claimed = update(mark).where(chosen, listed_again, mark.c.state == MarkState.CLAIMED)
            retried = c.execute(claimed.values(**lifted, lacking=None, first_pass_at=now)).rowcount
            retried += c.execute(update(mark).where(chosen).values(**lifted)).rowcount
        if ref is not None and not retried:
            raise NotQuarantined(f"{ref.kind} {ref.id} of {instance} is not quarantined; see: sexton why {ref.id}")
        return retried

    def discard(self, instance: str, ref: Ref, why: str, derived: Collection[str] = ()) -> Quarantined:
        """Discard a mark: move its record to history; its remaining files stay.

        A mark that waits for its second pass may be discarded too, after an undelete that this pass would undo. A late
        commit of the id, or a new mark of it, is refused as for a mark that is gone.

        ``derived``: kinds of marks that the owner made because of such a mark; rounds would delete them all the same.

        Raises:
            UnknownInstance: no such instance.
            BadInput: no reason is given, or files of it may be being deleted, or there are derived marks, or the mark
                of its parent deletes a prefix with these files in it.
            NotQuarantined: the mark is neither quarantined nor waiting for its second pass.
        """
        if not why.strip():
            raise WrongUsage("give a reason: the mark's files stay, and no round will delete them")
        mark = self._db.t.mark
        with deciding(self._db, instance) as c:
            is_mark = and_(mark.c.instance == instance, self._is(ref))
            locked = c.execute(select(mark).where(is_mark).with_for_update()).one_or_none()
            if locked is None or (locked.quarantined_reason is None and locked.first_pass_at is None):
                raise NotQuarantined(f"{ref.kind} {ref.id} of {instance} is not quarantined; see: sexton why {ref.id}")
            self._check_parent(c, instance, ref, locked)
            children = select(mark.c.kind, mark.c.id).where(mark.c.instance == instance, children_of(mark, [ref]))
            if derived and c.execute(children.where(in_list(mark.c.kind, derived)).limit(1)).first() is not None:
                raise BadInput(
                    f"marks were made because of {ref.kind} {ref.id}, and rounds would delete them: let the owner "
                    f"undrop it, or discard those first; see: sexton marks list {instance} --parent {ref.kind}/{ref.id}"
                )
            spans = find_spans(self._db, c, instance, [ref])
            sums = sum_files(self._db, c, spans, {ref}, skip_damaged=True).get(ref, [])
            is_open = locked.finished or (locked.quarantined_reason is None and bool(sums))
            if is_open and may_be_deleting(self._db, c, instance):
                raise BadInput(
                    f"files of {ref.kind} {ref.id} of {instance} are being deleted now: let the round finish "
                    "(see: sexton status), then try again"
                )
            # Also without stored files: they are dropped when a first pass is settled.
            is_claimed = locked.state == MarkState.CLAIMED
            if is_claimed and (seconds := seconds_of_requests(self._db, c, instance)) > 0:
                raise BadInput(
                    f"a request may still delete files of {ref.kind} {ref.id} of {instance}: wait {seconds:.0f} s, "
                    "then try again"
                )
            done = [of_outcome for of_outcome in sums if of_outcome.outcome in DONE]
            absorbed = [Ref(*row) for row in c.execute(children.where(mark.c.absorbed.is_(True)))]
            moved = [sums_row(ref, sum(n.files for n in done), sum(n.bytes for n in done))]
            moved += [sums_row(child, 0, 0) for child in absorbed]
            constants = {"gone_at": self._db.now(c), "round": 0, "discarded": why[:500]}
            move_to_history(self._db, c, instance, moved, true(), **constants)
            for span in spans:
                drop_files(self._db, c, span, [ref], skip_damaged=True)
                remove_damaged_lists(self._db, c, span)
        return _value(locked)

    def _check_parent(self, c: Connection, instance: str, ref: Ref, row: Any) -> None:
        """Raise ``BadInput`` if the mark's parent is marked, too, and deletes everything under a prefix."""
        mark = self._db.t.mark
        is_parent = [mark.c.instance == instance, mark.c.kind == row.parent_kind, mark.c.id == row.parent_id]
        deletes_all = select(mark.c.id).where(*is_parent, mark.c.prefix.is_not(None))
        if row.parent_id is not None and c.execute(deletes_all).first() is not None:
            raise BadInput(
                f"{row.parent_kind} {row.parent_id} is marked, and deletes all of its files, also those of {ref.kind} "
                f"{ref.id}: let the owner undrop it first, or discard its mark"
            )

    def _is(self, ref: Ref) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(mark.c.id == ref.id, mark.c.kind == ref.kind)


def _value(row: Any) -> Quarantined:
    columns = row._mapping
    reason = row.quarantined_reason or AWAITS_SECOND_PASS
    return Quarantined(**{**columns, "reason": reason, "keys": len(columns["keys"] or ())})
