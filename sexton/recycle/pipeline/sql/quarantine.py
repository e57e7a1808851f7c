"""Marks set aside: who they are, and the two ways out: try again, or give up and say so.

A round retries some by itself: UNKNOWN_VAULT when the vault is added, DELETE_FAILED once a day.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.marks.model import DONE, RESOLVED_ANEW, SEVERAL, Reason, Ref
from sexton.recycle.pipeline.sql.round_counts import add

SWEPT = "SWEPT"
"""What is said of a mark that waits for its second look."""


class Quarantined(Message):
    """One mark that was set aside; instants in ms since 1970."""

    instance: str
    kind: str
    id: str
    state: str
    reason: str
    failures: int
    last_error: str | None
    marked_at: int
    vault: str | None
    prefix: str | None
    keys: int
    bytes: int


class QuarantineStore:
    """What is set aside, as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def list(
        self, instance: str | None = None, reason: str | None = None, ref: Ref | None = None, limit: int = 100
    ) -> Sequence[Quarantined]:
        """Return what is set aside, in order of instance, kind and id."""
        mark = self._db.t.mark
        wanted = select(mark).where(mark.c.quarantined_reason.is_not(None))
        if instance is not None:
            wanted = wanted.where(mark.c.instance == instance)
        if reason is not None:
            wanted = wanted.where(mark.c.quarantined_reason == reason)
        if ref is not None:
            wanted = wanted.where(self._is(ref))
        with self._db.read() as c:
            rows = c.execute(wanted.order_by(mark.c.instance, mark.c.kind, mark.c.id).limit(limit)).all()
        return [_value(r) for r in rows]

    def retry(
        self, instance: str, *, ref: Ref | None = None, reason: str | None = None, but: Reason | None = None
    ) -> int:
        """Let the next round try marks again: one, those of a reason, or all of an instance; return how many.

        ``but``: a reason whose marks stay where they are.

        Raises:
            UnknownInstance: no such instance.
            BadInput: the one mark named is not set aside.
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
            fresh = {"quarantined_reason": None, "failures": 0, "next_try_at": now, "lacking": None}
            # Their files were forgotten: a second look resolves them anew.
            anew = mark.c.quarantined_reason.in_([str(r) for r in RESOLVED_ANEW])
            again = update(mark).where(chosen, anew, mark.c.state == "CLAIMED").values(**fresh, swept_at=now)
            freed = c.execute(again).rowcount + c.execute(update(mark).where(chosen).values(**fresh)).rowcount
        if ref is not None and not freed:
            raise BadInput(f"{ref.kind} {ref.id} of {instance} is not set aside; see: sexton why {ref.id}")
        return freed

    def discard(self, instance: str, ref: Ref, why: str) -> Quarantined:
        """Give a mark up: its record goes into history as discarded, what is left of its files stays where it is.

        One that waits for its second look may be given up too: after an undelete, which it would undo.

        An id never comes back: a late commit or a new mark of it is refused as for a mark that is gone.

        Raises:
            UnknownInstance: no such instance.
            BadInput: no reason is given, or the mark is neither set aside nor waiting for its second look.
        """
        if not why.strip():
            raise BadInput("say why it is given up: its files stay and nothing will look for them")
        mark, file = self._db.t.mark, self._db.t.mark_file
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            named = and_(mark.c.instance == instance, self._is(ref))
            locked = c.execute(select(mark).where(named).with_for_update()).one_or_none()
            if locked is None or (locked.quarantined_reason is None and locked.swept_at is None):
                raise BadInput(f"{ref.kind} {ref.id} of {instance} is not set aside; see: sexton why {ref.id}")
            its = and_(file.c.instance == instance, file.c.kind == ref.kind, file.c.id == ref.id)
            sums = (func.count().label("files"), func.coalesce(func.sum(file.c.bytes), 0).label("bytes"))
            gone = c.execute(select(*sums).where(its, file.c.outcome.in_(DONE))).one()
            with_it = [Ref(r[0], r[1]) for r in c.execute(self._absorbed(instance, ref))]
            for each, files, size in [(ref, gone.files, gone.bytes), *((child, 0, 0) for child in with_it)]:
                self._bury(c, instance, each, why, now, files, size)
            if gone.files:  # counted in the round that deleted them, whose report is written
                in_round = select(self._db.t.batch.c.round).where(self._db.t.batch.c.id == locked.batch)
                counts = {"deleted": gone.files, "bytes_freed": gone.bytes}
                add(self._db, c, c.execute(in_round).scalar_one(), {(ref.kind, locked.vault or SEVERAL): counts})
        return _value(locked)

    def _bury(self, c: Connection, instance: str, ref: Ref, why: str, now: int, files: int, size: int) -> None:
        """Move a record into history as discarded."""
        mark, history, file = self._db.t.mark, self._db.t.mark_history, self._db.t.mark_file
        same = ("instance", "kind", "id", "parent_kind", "parent_id", "vault", "prefix", "keys", "marked_at")
        made = {
            "claimed_at": func.coalesce(mark.c.claimed_at, literal(now, mark.c.claimed_at.type)),
            "gone_at": literal(now, mark.c.claimed_at.type),
            "batch": func.coalesce(mark.c.claimed_in, mark.c.batch, 0),
            "round": literal(0),
            "objects": mark.c.objects_gone + files,
            "bytes": mark.c.bytes_gone + size,
            "discarded": literal(why[:500]),
        }
        named = and_(mark.c.instance == instance, self._is(ref))
        row = select(*[mark.c[n] for n in same], *[v.label(n) for n, v in made.items()]).where(named)
        told = (postgresql if self._db.dialect == "postgresql" else sqlite).insert(history)
        told = told.from_select([*same, *made], row)
        again = {n: told.excluded[n] for n in made}  # an id that was marked anew from an old snapshot
        c.execute(told.on_conflict_do_update(index_elements=["instance", "kind", "id"], set_=again))
        for table in (file, mark):
            its = and_(table.c.instance == instance, table.c.kind == ref.kind, table.c.id == ref.id)
            c.execute(delete(table).where(its))

    def _absorbed(self, instance: str, ref: Ref) -> Select[str, str]:
        mark = self._db.t.mark
        its = and_(mark.c.parent_kind == ref.kind, mark.c.parent_id == ref.id, mark.c.absorbed.is_(True))
        return select(mark.c.kind, mark.c.id).where(mark.c.instance == instance, its)

    def _is(self, ref: Ref) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(mark.c.id == ref.id, mark.c.kind == ref.kind)


def _value(row: Any) -> Quarantined:
    names = ("instance", "kind", "id", "state", "failures", "last_error", "bytes", "marked_at", "vault", "prefix")
    keys = len(row._mapping["keys"] or ())
    return Quarantined(**{n: getattr(row, n) for n in names}, reason=row.quarantined_reason or SWEPT, keys=keys)
