"""Marks set aside: who they are, and the two ways out: try again, or give up and say so.

A round retries some by itself: UNKNOWN_VAULT when the vault is added, DELETE_FAILED once a day.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sexton.db.engine import Database
from sexton.errors import BadInput
from sexton.guard import deciding
from sexton.marks.model import DONE, Ref
from sexton.marks.tally import add
from sexton.message import Message


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
        return [
            Quarantined(
                **{n: getattr(r, n) for n in ("instance", "kind", "id", "state", "failures", "last_error", "bytes")},
                **{"marked_at": r.marked_at, "vault": r.vault, "prefix": r.prefix},
                reason=r.quarantined_reason,
                keys=len(r._mapping["keys"] or ()),
            )
            for r in rows
        ]

    def retry(self, instance: str, *, ref: Ref | None = None, reason: str | None = None) -> int:
        """Let the next round try marks again: one, those of a reason, or all of an instance; return how many.

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
        with deciding(self._db, instance) as c:
            fresh = {"quarantined_reason": None, "failures": 0, "next_try_at": self._db.now(c)}
            freed = c.execute(update(mark).where(chosen).values(**fresh)).rowcount
        if ref is not None and not freed:
            raise BadInput(f"{ref.kind} {ref.id} of {instance} is not set aside; see: sexton why {ref.id}")
        return freed

    def discard(self, instance: str, ref: Ref, why: str) -> Quarantined:
        """Give a mark up: its record goes into history as discarded, its files stay where they are.

        An id never comes back: a late commit or a new mark of it is refused as for a mark that is gone.

        Raises:
            UnknownInstance: no such instance.
            BadInput: no reason is given, or the mark is not set aside.
        """
        if not why.strip():
            raise BadInput("say why it is given up: its files stay and nothing will look for them")
        mark, history, file = self._db.t.mark, self._db.t.mark_history, self._db.t.mark_file
        found = self.list(instance, ref=ref)
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            named = and_(mark.c.instance == instance, self._is(ref))
            wanted = select(mark.c.quarantined_reason, mark.c.batch, mark.c.vault).where(named).with_for_update()
            locked = c.execute(wanted).one_or_none()
            if not found or locked is None or locked.quarantined_reason is None:
                raise BadInput(f"{ref.kind} {ref.id} of {instance} is not set aside; see: sexton why {ref.id}")
            its = and_(file.c.instance == instance, file.c.kind == ref.kind, file.c.id == ref.id)
            sums = (func.count().label("files"), func.coalesce(func.sum(file.c.bytes), 0).label("bytes"))
            gone = c.execute(select(*sums).where(its, file.c.outcome.in_(DONE))).one()
            same = ("instance", "kind", "id", "parent_kind", "parent_id", "vault", "prefix", "keys", "marked_at")
            made = {
                "claimed_at": func.coalesce(mark.c.claimed_at, literal(now, mark.c.claimed_at.type)),
                "gone_at": literal(now, mark.c.claimed_at.type),
                "batch": func.coalesce(mark.c.batch, 0),
                "round": literal(0),
                "objects": mark.c.objects_gone + gone.files,
                "bytes": mark.c.bytes_gone + gone.bytes,
                "discarded": literal(why[:500]),
            }
            row = select(*[mark.c[n] for n in same], *[v.label(n) for n, v in made.items()]).where(named)
            told = (postgresql if self._db.dialect == "postgresql" else sqlite).insert(history)
            told = told.from_select([*same, *made], row)
            again = {n: told.excluded[n] for n in made}  # an id that was marked anew from an old snapshot
            c.execute(told.on_conflict_do_update(index_elements=["instance", "kind", "id"], set_=again))
            if gone.files:  # counted in the round that deleted them, whose report is written
                in_round = select(self._db.t.batch.c.round).where(self._db.t.batch.c.id == locked.batch)
                counts = {"deleted": gone.files, "bytes_freed": gone.bytes}
                add(self._db, c, c.execute(in_round).scalar_one(), {(ref.kind, locked.vault): counts})
            for table in (file, mark):
                its = and_(table.c.instance == instance, table.c.kind == ref.kind, table.c.id == ref.id)
                c.execute(delete(table).where(its))
        return found[0]

    def _is(self, ref: Ref) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(mark.c.id == ref.id, mark.c.kind == ref.kind)
