"""Log the calls that change a deployment: caller, action, time, source and outcome.

A call is logged before it runs. A call that cannot be logged does not run, unless it only protects data. If the outcome
cannot be logged, the call still succeeds or is refused. Refusals without effect, and calls that programs repeat, are
logged afterwards; their repetitions are counted.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Row, select

from sexton.database.engine import AWAY, Database, first_line
from sexton.database.rows import in_list
from sexton.kernel.errors import SextonError, code_of
from sexton.operators.call_log import chain, verify
from sexton.operators.call_log.errors import CallLogBroken
from sexton.operators.call_log.model import DONE, CallRecord, CallRow, ChainReport
from sexton.operators.call_log.repeats import (
    MOST_REFUSED,
    MOST_ROUTINE,
    REFUSED_SECONDS,
    ROUTINE_SECONDS,
    Repeated,
    Repeats,
)

LEFT = "LEFT"
"""The outcome of a call whose caller left (Ctrl-C); work that it started may continue."""
RETENTION_MS = 400 * 86_400_000
DELETED_AT_ONCE = 10_000
ROUTINE_KEY = ("source", "action", "instance", "subject")
"""Calls of one caller that are the same in these fields are repetitions."""
REFUSAL_KEY = ("source", "action", "instance", "outcome")
UNKNOWN_CALLERS_KEY = ("subject", "outcome")
UNLOGGED = (*AWAY, CallLogBroken)
"""Errors that keep a row from being stored."""

log = logging.getLogger(__name__)


class CallStore:
    """The log of calls that change or delete something. One per process, because it counts repeated calls."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.refusals = Repeats(REFUSED_SECONDS, MOST_REFUSED)
        self.routine_calls = Repeats(ROUTINE_SECONDS, MOST_ROUTINE)

    @contextmanager
    def recorded(self, call: CallRecord, *, keeps: bool = False) -> Iterator[None]:
        """Log the call when the block begins, and its outcome when the block ends; exceptions pass through.

        ``keeps``: the call only protects data, so it runs even if it cannot be logged.
        """
        try:
            call_id = self.append(call)
        except UNLOGGED as e:
            if not keeps:
                raise
            log.warning("%r of %r was not logged: %s", call.action, call.instance or "all", first_line(e))
            yield
            return
        with self._ended(call, call_id):
            yield

    @contextmanager
    def recorded_once(self, call: CallRecord) -> Iterator[None]:
        """Log the first call of an hour as ``recorded`` does, and count its repetitions as ``routine`` does."""
        call = chain.storable(call)
        key = tuple(getattr(call, name) for name in ROUTINE_KEY)
        if self.routine_calls.knows(key, call.who):
            with self.routine(call):
                yield
            return
        window = self.routine_calls.count(key, call.model_copy(update={"outcome": DONE}))
        if window is None:  # another thread has just begun it
            yield
            return
        first = window.call.model_copy(update={"outcome": call.outcome})
        try:
            window.begun_id = self.append(first)
        except UNLOGGED:
            self.routine_calls.forget(window)
            raise
        with self._ended(first, window.begun_id):
            yield

    @contextmanager
    def routine(self, call: CallRecord) -> Iterator[None]:
        """Log a call that programs repeat, when the block ends: the first of an hour, and the number of the rest.

        Such calls report or protect, so they run even if they cannot be logged.
        """
        try:
            yield
        except SextonError as e:
            self.refused(call, code_of(e))
            raise
        self._count(self.routine_calls, ROUTINE_KEY, call.model_copy(update={"outcome": DONE}))

    def refused(self, call: CallRecord, outcome: str, address: str = "") -> None:
        """Log a call that was refused and changed nothing: the first of some minutes, and the number of the rest.

        ``address``: of a caller without identity; empty: the call names its caller.
        """
        key = UNKNOWN_CALLERS_KEY if address else REFUSAL_KEY
        self._count(self.refusals, key, call.model_copy(update={"outcome": outcome}), address)

    def store_counts(self, *, all_: bool = False) -> None:
        """Store the counts of repeated calls whose time is over, or of all. A process calls this now and then."""
        for repeats in (self.refusals, self.routine_calls):
            for repeated in repeats.ended(all_=all_):
                self._store_count(repeated)

    def last(
        self, count: int, instance: str | None = None, who: str = "", before: int | None = None
    ) -> Sequence[CallRecord]:
        """Return the newest calls with their outcomes, the newest first.

        Args:
            count: how many.
            instance: only calls about it; None: any.
            who: only callers whose name contains it.
            before: only calls with lower numbers.
        """
        t = self._db.t.call
        query = select(t).where(t.c.begun_id.is_(None)).order_by(t.c.id.desc()).limit(count)
        if instance is not None:
            query = query.where(t.c.instance == instance)
        if who:
            query = query.where(t.c.who.contains(who, autoescape=True))
        if before is not None:
            query = query.where(t.c.id < before)
        with self._db.read() as c:
            begun = c.execute(query).all()
            if not begun:
                return []
            follows = in_list(self._db, t.c.begun_id, [row.id for row in begun])
            ends = c.execute(select(t).where(follows).order_by(t.c.id)).all()
        return _with_ends(begun, ends)

    def rows(self, after: int, count: int) -> Sequence[CallRow]:
        """Return the rows of the chain behind one, in their order."""
        t = self._db.t.call
        with self._db.read() as c:
            rows = c.execute(select(t).where(t.c.id > after).order_by(t.c.id).limit(count))
            return [CallRow(**row._mapping) for row in rows]

    def newest(self) -> int:
        """Return the number of the newest row; 0: there is none."""
        with self._db.read() as c:
            return chain.head_of(self._db, c).id

    def verify(self, newest: int | None = None) -> ChainReport:
        """Compare the rows with their hashes; ``newest``: only so many of the newest."""
        return verify.verify(self._db, newest)

    def forget(self) -> int:
        """Delete calls older than 400 days, at most 10,000; return how many rows were deleted."""
        t = self._db.t.call
        with self._db.read() as c:
            oldest_id = chain.head_of(self._db, c).trimmed_id + 1
            oldest = c.execute(select(t.c.at).where(t.c.id == oldest_id)).scalar_one_or_none()
            before = self._db.now(c) - RETENTION_MS
        if oldest is None or oldest >= before:
            return 0
        with self._db.write() as c:
            return chain.trim(self._db, c, before, DELETED_AT_ONCE)

    def append(self, call: CallRecord, begun_id: int | None = None) -> int:
        """Append one row and return its number; ``begun_id``: the first row of the same call, None if this is it."""
        with self._db.write() as c:
            return chain.append(self._db, c, call, begun_id)

    @contextmanager
    def _ended(self, call: CallRecord, call_id: int) -> Iterator[None]:
        """Store the outcome of a call when the block ends; exceptions pass through."""
        try:
            yield
        except BaseException as e:
            self._end(call, call_id, code_of(e) if isinstance(e, Exception) else LEFT)
            raise
        self._end(call, call_id, DONE)

    def _end(self, call: CallRecord, call_id: int, outcome: str) -> None:
        """Store the outcome; if that fails, the call keeps the outcome ``asked``."""
        try:
            self.append(call.model_copy(update={"outcome": outcome, "times": 0}), call_id)
        except UNLOGGED as e:
            log.warning("the outcome of call %d (%s) was not logged: %s", call_id, outcome, first_line(e))

    def _count(self, repeats: Repeats, key: Sequence[str], call: CallRecord, address: str = "") -> None:
        call = chain.storable(call)
        window = repeats.count(tuple(getattr(call, name) for name in key), call, address)
        if window is None:
            return
        try:
            window.begun_id = self.append(window.call)
        except UNLOGGED as e:
            repeats.forget(window)
            log.warning("%r of %r was not logged: %s", call.action, call.who, first_line(e))

    def _store_count(self, repeated: Repeated) -> None:
        try:
            self.append(repeated.call, repeated.begun_id)
        except UNLOGGED as e:
            more = repeated.call.times
            log.warning("%d more calls like %d were not logged: %s", more, repeated.begun_id, first_line(e))


def _with_ends(begun: Sequence[Row[Any]], ends: Sequence[Row[Any]]) -> list[CallRecord]:
    """Return the calls, each with its last outcome and the number of calls that it stands for."""
    calls = {row.id: CallRecord(**row._mapping) for row in begun}
    for end in ends:
        call = calls.get(end.begun_id)
        if call is not None:
            changes = {"outcome": end.outcome, "times": call.times + end.times}
            calls[end.begun_id] = call.model_copy(update=changes)
    return list(calls.values())
