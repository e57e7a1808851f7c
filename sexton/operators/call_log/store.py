"""What was done to a deployment from outside, as rows: who, what, when, from where, and how it ended.

A call is written down before it is done: one that cannot be written down is not done, unless it only keeps something.
How it ended is written down if that can be; the call is done or refused all the same.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import delete, insert, select, update

from sexton.database.engine import AWAY, Database, first_line
from sexton.kernel.errors import code_of
from sexton.operators.access.model import DONE, CallRecord

TEXT_CHARACTERS = 500
"""What is remembered of any one text of a call."""
LEFT = "LEFT"
"""Whoever called went away (Ctrl-C); what it had begun may go on."""
KEPT_MS = 400 * 86_400_000
FORGOTTEN_AT_ONCE = 10_000

log = logging.getLogger(__name__)


class CallStore:
    """Calls that change or delete something."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @contextmanager
    def recorded(self, call: CallRecord, *, keeps: bool = False) -> Iterator[None]:
        """Write the call down, and when it has ended, how; what it raises is passed on.

        ``keeps``: it makes nothing go, so it is done also where it cannot be written down.
        """
        try:
            made = self._begin(call)
        except AWAY as e:
            if not keeps:
                raise
            log.warning("%s of %s is not written down: %s", call.action, call.instance or "all", first_line(e))
            yield
            return
        try:
            yield
        except BaseException as e:
            self._end(made, code_of(e) if isinstance(e, Exception) else LEFT)
            raise
        self._end(made, DONE)

    def last(self, count: int, instance: str | None = None) -> Sequence[CallRecord]:
        """Return the newest calls, the newest first."""
        t = self._db.t.call
        wanted = select(t).order_by(t.c.id.desc()).limit(count)
        if instance is not None:
            wanted = wanted.where(t.c.instance == instance)
        with self._db.read() as c:
            return [CallRecord(**r._mapping) for r in c.execute(wanted)]

    def forget(self) -> int:
        """Remove what is older than 400 days, some thousands at a time; return how many."""
        t = self._db.t.call
        with self._db.write() as c:
            # In the order they were written: the first that is young enough ends the look.
            oldest = select(t.c.id, t.c.at).order_by(t.c.id).limit(FORGOTTEN_AT_ONCE).subquery()
            over = select(oldest.c.id).where(oldest.c.at < self._db.now(c) - KEPT_MS)
            return c.execute(delete(t).where(t.c.id.in_(over))).rowcount

    def _begin(self, call: CallRecord) -> int:
        t = self._db.t.call
        values = {n: _short(v) for n, v in call.model_dump(exclude={"at"}).items()}
        with self._db.write() as c:
            return int(c.execute(insert(t).values(**values, at=self._db.now(c)).returning(t.c.id)).scalar_one())

    def _end(self, call: int, outcome: str) -> None:
        """Say how it ended; where that cannot be said, the call stays one whose end nobody saw."""
        t = self._db.t.call
        try:
            with self._db.write() as c:
                c.execute(update(t).where(t.c.id == call).values(outcome=_short(outcome)))
        except AWAY as e:
            log.warning("how call %d ended (%s) is not written down: %s", call, outcome, first_line(e))


def _short(text: str) -> str:
    """Return what a database can hold of a text: a call is not refused for what somebody wrote beside it."""
    return text.replace("\0", "").encode(errors="replace").decode()[:TEXT_CHARACTERS]
