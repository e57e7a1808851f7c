"""Log the calls that change a deployment: caller, action, time, source and outcome.

A call is logged before it runs. A call that cannot be logged does not run, unless it only protects data. If the outcome
cannot be logged, the call still succeeds or is refused.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import delete, func, insert, select, update

from sexton.database.engine import AWAY, Database, first_line
from sexton.kernel.errors import code_of
from sexton.operators.call_log.model import DONE, CallRecord

TEXT_CHARACTERS = 500
"""The longest text that is stored of a field."""
LEFT = "LEFT"
"""The outcome of a call whose caller left (Ctrl-C); work that it started may continue."""
RETENTION_MS = 400 * 86_400_000
DELETED_AT_ONCE = 10_000

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
            call_id = self._begin(call)
        except AWAY as e:
            if not keeps:
                raise
            log.warning("%s of %s was not logged: %s", call.action, call.instance or "all", first_line(e))
            yield
            return
        try:
            yield
        except BaseException as e:
            self._end(call_id, code_of(e) if isinstance(e, Exception) else LEFT)
            raise
        self._end(call_id, DONE)

    def last(self, count: int, instance: str | None = None) -> Sequence[CallRecord]:
        """Return the newest calls, the newest first."""
        t = self._db.t.call
        query = select(t).order_by(t.c.id.desc()).limit(count)
        if instance is not None:
            query = query.where(t.c.instance == instance)
        with self._db.read() as c:
            return [CallRecord(**row._mapping) for row in c.execute(query)]

    def forget(self) -> int:
        """Delete calls older than 400 days, at most 10,000; return how many were deleted."""
        t = self._db.t.call
        with self._db.write() as c:
            # Ids are in the order of time, so only the oldest ids need to be compared.
            oldest = c.execute(select(func.min(t.c.id))).scalar_one()
            if oldest is None:
                return 0
            are_oldest = t.c.id.between(oldest, oldest + DELETED_AT_ONCE - 1)
            is_expired = t.c.at < self._db.now(c) - RETENTION_MS
            return c.execute(delete(t).where(are_oldest, is_expired)).rowcount

    def _begin(self, call: CallRecord) -> int:
        t = self._db.t.call
        values = {name: _storable(text) for name, text in call.model_dump(exclude={"at"}).items()}
        with self._db.write() as c:
            return int(c.execute(insert(t).values(**values, at=self._db.now(c)).returning(t.c.id)).scalar_one())

    def _end(self, call_id: int, outcome: str) -> None:
        """Store the outcome; if that fails, the call keeps the outcome ``asked``."""
        t = self._db.t.call
        try:
            with self._db.write() as c:
                c.execute(update(t).where(t.c.id == call_id).values(outcome=_storable(outcome)))
        except AWAY as e:
            log.warning("the outcome of call %d (%s) was not logged: %s", call_id, outcome, first_line(e))


def _storable(text: str) -> str:
    """Return the text as a database can store it: a call is not refused because of its reason or subject."""
    return text.replace("\0", "").encode(errors="replace").decode()[:TEXT_CHARACTERS]
