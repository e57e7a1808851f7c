"""Operators' holds: until they end, nothing they name is claimed. Placing one is a deciding transaction.

A hold keeps what is not claimed yet; a claim that came first is irrevocable, and ``place`` says how many there are.
"""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, insert, or_, select, tuple_, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.message import Message
from sexton.operators.controls.store import whoami
from sexton.storage.policy import check_listing

MAX_SECONDS = 3650 * 86_400
REASON_CHARACTERS = 500


class TooLate(SextonError):
    """What was to be held is claimed or gone already."""


class Hold(Message):
    """One hold. A ``mark`` hold keeps that mark and everything that names it as an ancestor; instants in ms."""

    id: int = 0
    instance: str
    scope: Literal["instance", "mark", "prefix"]
    mark_kind: str | None = None
    mark_id: str | None = None
    vault: str | None = None
    prefix: str | None = None
    reason: str
    placed_by: str = ""
    placed_at: int = 0
    expires_at: int = 0
    released_at: int | None = None

    @property
    def what(self) -> str:
        """Return what it keeps, for people."""
        if self.scope == "mark":
            return f"{self.mark_kind} {self.mark_id} and all below it"
        return f"{self.vault}/{self.prefix}" if self.scope == "prefix" else "the whole instance"


class HoldStore:
    """Holds as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def place(self, wanted: Hold, seconds: int) -> tuple[Hold, int]:
        """Place a hold for so many seconds; return it and how many marks it comes too late for.

        Raises:
            UnknownInstance: no such instance.
            BadInput: the length, reason, vault or prefix is not acceptable.
            TooLate: the one mark it names is claimed or gone, and nothing below it is left.
        """
        if not 0 < seconds <= MAX_SECONDS:
            raise BadInput(f"a hold lasts 1 to {MAX_SECONDS} seconds, not {seconds}")
        check_text(wanted.reason, wanted.placed_by, *(v for v in (wanted.mark_id, wanted.vault, wanted.prefix) if v))
        if not 0 < len(wanted.reason.strip()) <= REASON_CHARACTERS:
            raise BadInput(f"give a reason of 1 to {REASON_CHARACTERS} characters: others must know why it is held")
        t = self._db.t
        with deciding(self._db, wanted.instance) as c:
            reached("hold.guarded")
            now = self._db.now(c)
            self._check(c, wanted)
            late = self._claimed(c, wanted)
            made = wanted.model_copy(
                update={
                    "placed_by": wanted.placed_by or whoami(),
                    "placed_at": now,
                    "expires_at": now + seconds * 1000,
                    "released_at": None,
                }
            )
            row = insert(t.hold).values(**made.model_dump(exclude={"id"})).returning(t.hold.c.id)
            id_ = c.execute(row).scalar_one()
            reached("hold.written")
        return made.model_copy(update={"id": id_}), late

    def keeps(self, hold: Hold) -> int | None:
        """Return how many marks a hold would keep now that are not claimed; None where only their files tell."""
        if hold.scope == "prefix":
            return None
        mark = self._db.t.mark
        here = and_(mark.c.instance == hold.instance, mark.c.state != "CLAIMED")
        if hold.scope == "mark":
            here = and_(here, or_(self._is(mark, hold), tuple_(mark.c.kind, mark.c.id).in_(self._below(hold))))
        with self._db.read() as c:
            return int(c.execute(select(func.count()).select_from(mark).where(here)).scalar_one())

    def release(self, hold: int) -> Hold:
        """End a hold now; repeating it changes nothing.

        Raises:
            BadInput: there is no such hold.
        """
        t = self._db.t.hold
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(update(t).where(t.c.id == hold, t.c.released_at.is_(None)).values(released_at=now))
            row = c.execute(select(t).where(t.c.id == hold)).one_or_none()
        if row is None:
            raise BadInput(f"there is no hold {hold}; see: sexton blockers")
        return Hold(**row._mapping)

    def active(self, instance: str | None = None) -> Sequence[Hold]:
        """Return the holds that keep something now, the oldest first."""
        t = self._db.t.hold
        with self._db.read() as c:
            wanted = select(t).where(t.c.released_at.is_(None), t.c.expires_at > self._db.now(c)).order_by(t.c.id)
            if instance is not None:
                wanted = wanted.where(t.c.instance == instance)
            return [Hold(**r._mapping) for r in c.execute(wanted)]

    def _check(self, c: Connection, wanted: Hold) -> None:
        t = self._db.t
        if wanted.scope == "prefix":
            here = and_(t.vault.c.instance == wanted.instance, t.vault.c.name == wanted.vault)
            own = c.execute(select(t.vault.c.prefix).where(here)).scalar_one_or_none()
            if own is None:
                raise BadInput(f"instance {wanted.instance} has no vault {wanted.vault}; see: sexton vault list")
            # What no key can begin with would hold nothing, and look as if it did.
            if wanted.prefix:
                check_listing(wanted.prefix)
            if own and str(wanted.prefix).startswith(own):
                inside = f"{wanted.vault}/{str(wanted.prefix).removeprefix(own)}"
                raise BadInput(
                    f"keys are relative to their vault, whose own prefix is {own}: write {inside}; if there is a "
                    f"folder {own} inside of it, hold the whole instance"
                )

    def _claimed(self, c: Connection, wanted: Hold) -> int:
        """Return how many claimed marks this hold comes too late for, as far as marks tell.

        Raises:
            TooLate: the mark is claimed or gone, and nothing below it is left to keep.
        """
        mark, file = self._db.t.mark, self._db.t.mark_file
        here = mark.c.instance == wanted.instance
        if wanted.scope == "mark":
            here = and_(here, or_(self._is(mark, wanted), tuple_(mark.c.kind, mark.c.id).in_(self._below(wanted))))
            left = c.execute(select(mark.c.state).where(here, mark.c.state != "CLAIMED").limit(1)).first()
            if left is None and (past := self._past(c, wanted)):
                raise TooLate(f"{wanted.mark_kind} {wanted.mark_id} is {past}; see: sexton why {wanted.mark_id}")
        if wanted.scope == "prefix":
            prefix = str(wanted.prefix)
            its = and_(file.c.id == mark.c.id, file.c.kind == mark.c.kind, file.c.instance == mark.c.instance)
            under = and_(file.c.vault == wanted.vault, func.substr(file.c.key, 1, len(prefix)) == prefix)
            by_file = select(1).where(its, under, file.c.outcome.is_(None)).exists()
            by_prefix = and_(mark.c.vault == wanted.vault, func.substr(mark.c.prefix, 1, len(prefix)) == prefix)
            here = and_(here, or_(by_file, by_prefix))
        claimed = select(func.count()).select_from(mark).where(here, mark.c.state == "CLAIMED")
        return int(c.execute(claimed).scalar_one())

    def _past(self, c: Connection, wanted: Hold) -> str:
        """Return what became of the one mark named: claimed, gone, or empty where it was never seen."""
        for table, said in (
            (self._db.t.mark, "claimed: its files are being deleted"),
            (self._db.t.mark_history, "gone"),
        ):
            if c.execute(select(table.c.id).where(self._is(table, wanted))).first() is not None:
                return said
        return ""

    def _is(self, table: Table, wanted: Hold) -> ColumnElement[bool]:
        named = and_(table.c.id == wanted.mark_id, table.c.kind == wanted.mark_kind)
        return and_(table.c.instance == wanted.instance, named)

    def _below(self, wanted: Hold) -> Select[Any]:
        """Select the marks that name one as an ancestor, from mark to mark; UNION ends a circle."""
        mark = self._db.t.mark
        mine = mark.c.instance == wanted.instance
        children = and_(mine, mark.c.parent_kind == wanted.mark_kind, mark.c.parent_id == wanted.mark_id)
        below = select(mark.c.kind, mark.c.id).where(children).cte("below", recursive=True)
        deeper = and_(mine, mark.c.parent_kind == below.c.kind, mark.c.parent_id == below.c.id)
        below = below.union(select(mark.c.kind, mark.c.id).where(deeper))
        return select(below.c.kind, below.c.id)
