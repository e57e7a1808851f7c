"""Refuse an undelete whose result a claimed mark would delete again."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, literal, or_, select

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.database.rows import READ_ROWS
from sexton.kernel.errors import SextonError
from sexton.marks.model import SECOND_PASS, BatchState, Reason, Ref, Span
from sexton.marks.sql.file_lists import in_span, may_have_keys, may_have_prefix, of_instance, read_lists
from sexton.marks.sql.leases import may_be_deleting, seconds_of_requests
from sexton.marks.sql.rows import refs_in
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import HoldStore


class _Target(NamedTuple):
    """The objects to undelete: those under a prefix, or the keys, which are in order."""

    instance: str
    vault: str
    prefix: str
    keys: Sequence[str]
    key_set: frozenset[str]

    @classmethod
    def of(cls, instance: str, vault: str, prefix: str, keys: Sequence[str]) -> "_Target":
        return cls(instance, vault, prefix, sorted(keys), frozenset(keys))

    def contains(self, key: str) -> bool:
        """Return whether a key is among the objects."""
        return key.startswith(self.prefix) if self.prefix else key in self.key_set

    def touches(self, prefix: str | None, keys: Sequence[str]) -> bool:
        """Return whether a mark that names a prefix, or keys, may delete one of the objects."""
        if prefix is not None and self.prefix and (prefix.startswith(self.prefix) or self.prefix.startswith(prefix)):
            return True
        return (prefix is not None and any_key_under(self.keys, prefix)) or any(map(self.contains, keys))


class UndeleteUnsafe(SextonError):
    """A claimed mark would delete again the objects that are to be undeleted."""


def ensure_undelete_is_safe(
    db: Database, instance: str, vault: str, prefix: str = "", keys: Sequence[str] = ()
) -> None:
    """Refuse to undelete objects that a claimed mark deletes now, or deletes in the second pass over its prefix.

    A hold blocks a second pass that has not begun. Nothing blocks the first pass of a mark that a round has claimed,
    nor a request for which nobody waits: its worker was replaced, or its lease was released, a moment ago.

    Args:
        db: the database.
        instance: whose objects are undeleted.
        vault: of the objects.
        prefix: of the objects; or
        keys: the objects.

    Raises:
        UnknownInstance: no such instance.
        UndeleteUnsafe: there is such a mark; the message says what to do first.
    """
    holds = HoldStore(db).active(instance)
    with db.read() as c:
        if c.execute(select(db.t.instance.c.id).where(db.t.instance.c.id == instance)).one_or_none() is None:
            raise UnknownInstance(instance)
        _refuse_requests(db, c, instance)
        target = _Target.of(instance, vault, prefix, keys)
        in_first_pass = _refuse_during_deletion(db, c, target)
        _refuse_second_passes(db, c, target, holds, ~in_first_pass)
        # Again: a take-over that settled its marks meanwhile left none of them to be seen, and perhaps a request.
        _refuse_requests(db, c, instance)


def _refuse_requests(db: Database, c: Connection, instance: str) -> None:
    if (seconds := seconds_of_requests(db, c, instance)) > 0:
        raise UndeleteUnsafe(
            f"a request of {instance}'s last round may still delete objects: wait {seconds:.0f} s, then undelete"
        )


def _refuse_second_passes(
    db: Database, c: Connection, target: _Target, holds: Sequence[Hold], after_first_pass: ColumnElement[bool]
) -> None:
    """Refuse what a second pass would delete again, unless a hold blocks it."""
    instance, vault, prefix, keys = target.instance, target.vault, target.prefix, target.keys
    held_prefixes = tuple(h.prefix for h in holds if h.scope == "prefix" and h.vault == vault and h.prefix)
    open_keys = [key for key in keys if not key.startswith(held_prefixes)]
    is_held = any(hold.scope == "instance" for hold in holds) or (bool(prefix) and prefix.startswith(held_prefixes))
    if is_held or not (prefix or open_keys):
        return
    unheld = _Target.of(instance, vault, prefix, open_keys)
    held_marks = {Ref(str(hold.mark_kind), str(hold.mark_id)) for hold in holds if hold.scope == "mark"}
    if awaiting := _claimed_marks(db, c, unheld, after_first_pass) - held_marks:
        place = prefix or common_folder(open_keys)
        hold = f"{instance} --prefix {vault}/{place}" if place else instance
        raise UndeleteUnsafe(
            f"{_first_of(awaiting)} of {instance} is claimed, and its second pass would delete the objects again; "
            f"first: sexton hold add {hold} --for 7d --reason 'undelete'; then {_discard(instance, awaiting)}"
        )


def _refuse_during_deletion(db: Database, c: Connection, target: _Target) -> ColumnElement[bool]:
    """Refuse what a round deletes now, or tries again whatever is held; return the condition of a first pass."""
    mark, instance = db.t.mark, target.instance
    in_first_pass = and_(mark.c.first_pass_at.is_(None), mark.c.quarantined_reason.is_(None))
    deleted_now = in_first_pass
    if may_be_deleting(db, c, instance):
        # Keepers were asked about the files of these marks already: a hold that is placed now comes too late for them.
        # A round makes the second pass of a mark also where it has found no file.
        batch = db.t.batch
        of_batch = and_(batch.c.id == mark.c.batch, batch.c.kind == SECOND_PASS, batch.c.state == BatchState.OPEN)
        in_work = or_(exists().where(of_batch), refs_in(mark, _second_passes_with_files(db, c, instance)))
        deleted_now = or_(in_first_pass, mark.c.finished, and_(mark.c.quarantined_reason.is_(None), in_work))
    if deleting := _claimed_marks(db, c, target, deleted_now):
        raise UndeleteUnsafe(
            f"{_first_of(deleting)} of {instance} is claimed and its files are still being deleted: let the round "
            f"finish (see: sexton status), then undelete"
        )
    is_tried_again = mark.c.quarantined_reason.in_([Reason.DELETE_FAILED.value, Reason.FILES_UNREADABLE.value])
    for condition, effect in (
        (and_(mark.c.first_pass_at.is_(None), is_tried_again), "its failed deletes are tried again once a day"),
        (mark.c.finished, "the next round removes the records of its files"),
    ):
        if marks := _claimed_marks(db, c, target, condition):
            raise UndeleteUnsafe(
                f"{_first_of(marks)} of {instance} is claimed, and {effect}, which no hold blocks; first "
                f"{_discard(instance, marks)}"
            )
    return in_first_pass


def _second_passes_with_files(db: Database, c: Connection, instance: str) -> set[Ref]:
    """Return the marks after their first pass that have stored files."""
    mark, files = db.t.mark, db.t.file_list
    is_its_list = and_(
        files.c.batch == mark.c.batch, files.c.last > mark.c.files_after, files.c.first <= mark.c.last_file
    )
    after_first_pass = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.first_pass_at.is_not(None))
    rows = c.execute(select(mark.c.batch, mark.c.kind, mark.c.id).where(after_first_pass, exists().where(is_its_list)))
    refs_by_batch: dict[int, set[Ref]] = {}
    for batch, kind, id_ in rows:
        refs_by_batch.setdefault(batch, set()).add(Ref(kind, id_))
    return {
        ref
        for batch, refs in refs_by_batch.items()
        for one in read_lists(db, c, in_span(db, Span(batch)))
        for ref in refs & one.refs
    }


def _claimed_marks(db: Database, c: Connection, target: _Target, condition: ColumnElement[bool]) -> set[Ref]:
    """Return the claimed marks that meet the condition and touch the target by prefix, by key or by a stored file.

    A mark that names nothing touches any target: its owner names its files. A child that was claimed with its parent
    is left out: the parent's files include its own.
    """
    mark = db.t.mark
    claimed = and_(mark.c.instance == target.instance, mark.c.state == "CLAIMED", mark.c.absorbed.is_(False), condition)
    marks = _unnamed_marks(db, c, claimed) | _marks_with_files(db, c, target, claimed)
    in_vault = or_(mark.c.vault == target.vault, mark.c.vault.is_(None))
    named = select(mark.c.kind, mark.c.id, mark.c.prefix, mark.c["keys"]).where(claimed, in_vault)
    if target.prefix:
        inside = func.substr(mark.c.prefix, 1, len(target.prefix)) == target.prefix
        around = func.substr(literal(target.prefix), 1, func.length(mark.c.prefix)) == mark.c.prefix
        named = named.where(or_(mark.c["keys"].is_not(None), inside, around))
    rows = c.execute(named.execution_options(yield_per=READ_ROWS))
    marks.update(Ref(row.kind, row.id) for row in rows if target.touches(row.prefix, row._mapping["keys"] or ()))
    return marks


def _unnamed_marks(db: Database, c: Connection, claimed: ColumnElement[bool]) -> set[Ref]:
    """Return claimed marks that name nothing, and whose stored files are not all of theirs.

    Only their owner knows what they delete: after a first pass it is queried again, whatever files are stored.
    """
    mark = db.t.mark
    is_unnamed = and_(mark.c.prefix.is_(None), mark.c["keys"].is_(None))
    waits = or_(mark.c.first_pass_at.is_not(None), mark.c.quarantined_reason.is_not(None))
    columns = (mark.c.batch, mark.c.kind, mark.c.id, mark.c.first_pass_at)
    rows = c.execute(select(*columns).where(claimed, is_unnamed, waits)).all()
    unnamed = {Ref(row.kind, row.id) for row in rows}
    in_first_pass = {Ref(row.kind, row.id) for row in rows if row.first_pass_at is None}
    for batch in sorted({row.batch for row in rows if row.first_pass_at is None}):
        for files in read_lists(db, c, in_span(db, Span(batch))):
            unnamed -= in_first_pass & files.refs
    return unnamed


def _marks_with_files(db: Database, c: Connection, target: _Target, claimed: ColumnElement[bool]) -> set[Ref]:
    """Return claimed marks with a stored file among the target's objects, tried or not."""
    if not (target.prefix or target.keys):
        return set()
    in_target = (
        may_have_prefix(db, target.prefix) if target.prefix else may_have_keys(db, target.keys[0], target.keys[-1])
    )
    touching = {
        run.ref
        for files in read_lists(db, c, of_instance(db, target.instance), in_target)
        for run in files.runs
        if run.vault == target.vault and any(map(target.contains, files.keys_of(run)))
    }
    mark = db.t.mark
    rows = c.execute(select(mark.c.kind, mark.c.id).where(claimed, refs_in(mark, touching)))
    return {Ref(*row) for row in rows}


def any_key_under(ordered_keys: Sequence[str], prefix: str) -> bool:
    """Return whether one of the keys, which are in order, begins with the prefix."""
    position = bisect_left(ordered_keys, prefix)
    return position < len(ordered_keys) and ordered_keys[position].startswith(prefix)


def common_folder(keys: Sequence[str]) -> str:
    """Return the deepest folder that contains all keys, with its slash, or empty; of a single key, the key itself."""
    if len(keys) == 1:
        return keys[0]
    first, last = min(keys), max(keys)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return first[: first.rfind("/", 0, shared) + 1]


def _first_of(marks: set[Ref]) -> str:
    """Return the first mark, and how many more there are, for an error message."""
    first = min(marks)
    others = f" (and {len(marks) - 1} more)" if len(marks) > 1 else ""
    return f"mark {first.kind} {first.id}{others}"


def _discard(instance: str, marks: set[Ref]) -> str:
    """Return how to give the first mark up, for an error message."""
    first = min(marks)
    return (
        f"give the mark up permanently: sexton quarantine discard {instance} {first.kind}/{first.id} "
        "--reason 'undelete'"
    )
