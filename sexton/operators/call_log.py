"""Log the calls that change a deployment: caller, action, time, source and outcome.

A call is logged before it runs. A call that cannot be logged does not run, unless it only protects data. If the outcome
cannot be logged, the call still succeeds or is refused. A refusal without effect is one row. A call that programs
repeat all the time, such as a heartbeat, is logged only if it is refused.
"""

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import Field
from sqlalchemy import Connection, Text, cast, delete, func, insert, literal_column, select

from sexton.database.engine import AWAY, Database, first_line
from sexton.database.rows import in_list, newest
from sexton.kernel.errors import SextonError, code_of
from sexton.kernel.message import Message

ASKED, DONE = "asked", "ok"
WORKER = "worker"
"""The caller of rounds that workers begin."""


class CallRecord(Message):
    """A call that changed something or was refused."""

    id: int = Field(0, alias="call")
    at: int = Field(0, alias="happened_at")
    who: str
    source: str
    """The caller's address, or ``cli@HOST``, or ``worker@HOST``."""
    role: str = ""
    """The database role that wrote the row."""
    action: str
    instance: str = ""
    subject: str = ""
    """The object of the action: a job, the number of a plan."""
    outcome: str = ASKED
    """``ok``, the code of the error, or ``asked``: the outcome is unknown."""
    reason: str = ""


class CallRow(CallRecord):
    """One row of the log. It never changes: the outcome of a call is a second row."""

    begun_id: int | None = None
    """The first row of the same call; None: this is it."""


LEFT = "LEFT"
"""The outcome of a call whose caller left (Ctrl-C); work that it started may continue."""
RETENTION_MS = 400 * 86_400_000
DELETED_AT_ONCE = 10_000
TEXT_CHARACTERS = 500
"""The longest text that is stored of a field."""
TEXTS = frozenset({"who", "source", "action", "instance", "subject", "outcome", "reason"})

log = logging.getLogger(__name__)


class CallStore:
    """The log of calls that change or delete something."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @contextmanager
    def recorded(self, call: CallRecord, *, keeps: bool = False) -> Iterator[None]:
        """Log the call when the block begins, and its outcome when the block ends; exceptions pass through.

        ``keeps``: the call only protects data, so it runs even if it cannot be logged.
        """
        try:
            call_id = self.append(call)
        except AWAY as e:
            if not keeps:
                raise
            log.warning("%r of %r was not logged: %s", call.action, call.instance or "all", first_line(e))
            yield
            return
        outcome = DONE
        try:
            yield
        except BaseException as e:
            outcome = code_of(e) if isinstance(e, Exception) else LEFT
            raise
        finally:
            try:
                self.append(call.model_copy(update={"outcome": outcome}), call_id)
            except AWAY as e:  # the call keeps the outcome ``asked``
                log.warning("the outcome of call %d (%s) was not logged: %s", call_id, outcome, first_line(e))

    @contextmanager
    def routine(self, call: CallRecord) -> Iterator[None]:
        """Log a call that programs repeat all the time only if the block refuses it."""
        try:
            yield
        except SextonError as e:
            self.refused(call, code_of(e))
            raise

    def refused(self, call: CallRecord, outcome: str) -> None:
        """Log a call that was refused and changed nothing."""
        try:
            self.append(call.model_copy(update={"outcome": outcome}))
        except AWAY as e:
            log.warning("%r of %r was not logged: %s", call.action, call.who, first_line(e))

    def last(
        self,
        count: int,
        instance: str | None = None,
        who: str = "",
        before: int | None = None,
        *,
        works: bool = True,
    ) -> Sequence[CallRecord]:
        """Return the newest calls with their outcomes, the newest first.

        ``instance``: only calls about it; None: any. ``who``: only callers whose name contains it. ``before``: only
        lower numbers. ``works``: also what workers began by themselves.
        """
        t = self._db.t.call
        query = newest(t, count, instance, before).where(t.c.begun_id.is_(None))
        if not works:
            query = query.where(t.c.who != WORKER)
        if who:
            query = query.where(t.c.who.contains(who, autoescape=True))
        with self._db.read() as c:
            begun = c.execute(query).all()
            if not begun:
                return []
            follows = in_list(t.c.begun_id, [row.id for row in begun])
            outcomes = {row.begun_id: row.outcome for row in c.execute(select(t).where(follows))}
        return [CallRecord(**{**row._mapping, "outcome": outcomes.get(row.id, row.outcome)}) for row in begun]

    def rows(self, after: int, count: int) -> Sequence[CallRow]:
        """Return the rows behind one, in their order."""
        t = self._db.t.call
        with self._db.read() as c:
            rows = c.execute(select(t).where(t.c.id > after).order_by(t.c.id).limit(count))
            return [CallRow(**row._mapping) for row in rows]

    def newest(self) -> int:
        """Return the number of the newest row; 0: there is none."""
        with self._db.read() as c:
            return c.execute(select(func.max(self._db.t.call.c.id))).scalar_one() or 0

    def forget(self) -> int:
        """Delete calls older than 400 days, of the 10,000 oldest; return how many rows were deleted."""
        t = self._db.t.call
        oldest = select(t.c.id, t.c.at).order_by(t.c.id).limit(DELETED_AT_ONCE).subquery()
        with self._db.write() as c:
            is_over = oldest.c.at < self._db.now(c) - RETENTION_MS
            deleted: int = c.execute(delete(t).where(t.c.id.in_(select(oldest.c.id).where(is_over)))).rowcount
        return deleted

    def append(self, call: CallRecord, begun_id: int | None = None) -> int:
        """Append one row and return its number; ``begun_id``: the first row of the same call, None if this is it."""
        with self._db.write() as c:
            return append(self._db, c, call, begun_id)


def append(db: Database, c: Connection, call: CallRecord, begun_id: int | None = None) -> int:
    """Append a row in the caller's transaction, which should end soon, and return its number.

    Writers lock the row of the clock: rows appear in the order of their numbers, so that who streams them misses none.
    The row gets number, time and role of this moment. ``begun_id``: the first row of the same call; None: this is it.
    """
    c.execute(select(db.t.clock.c.one).with_for_update(key_share=True))
    # What a database can store: no call is refused because of its reason or subject.
    texts = {
        name: getattr(call, name).replace("\0", "").encode(errors="replace").decode()[:TEXT_CHARACTERS]
        for name in TEXTS
    }
    role = cast(literal_column("session_user"), Text)
    row = insert(db.t.call).values(**texts, at=db.now(c), role=role, begun_id=begun_id).returning(db.t.call.c.id)
    id_: int = c.execute(row).scalar_one()
    return id_


def record_work(db: Database, c: Connection, action: str, instance: str = "", subject: str = "", by: str = "") -> None:
    """Append a row for work that begins in the caller's transaction, so that neither exists without the other.

    The transaction should end soon. ``subject``: the number of the round, the topic. ``by``: who requested it, as the
    order has it, which each party that reaches Temporal can write. Empty: see the search attribute of
    the workflow.
    """
    reason = f"requested by {by}, as the order has it" if by else "requested by: see SextonRequestedBy of its workflow"
    call = CallRecord(who=WORKER, source=f"worker@{socket.gethostname()}", action=action, instance=instance)
    append(db, c, call.model_copy(update={"subject": subject, "outcome": DONE, "reason": reason}))
