"""Delete history rows that are too old, a few thousand in each transaction."""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select

from sexton.database.engine import Database
from sexton.database.ranges import beyond
from sexton.marks.model import Ref
from sexton.marks.sql.rows import refs_in

HISTORY_DAYS = 30
PAGE_ROWS = 5_000
MOST_SECONDS = 60.0
"""A round spends at most this long on it; the next round continues."""


class HistoryStore:
    """Rows of ``mark_history``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def forget(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Delete history rows older than ``HISTORY_DAYS``, except those that a mark or its child still needs.

        ``heartbeat``: called between two pages.
        """
        until, after = time.monotonic() + MOST_SECONDS, None
        while time.monotonic() < until:
            heartbeat()
            after = self._forget_page(instance, after)
            if after is None:
                return

    def _forget_page(self, instance: str, after: Any) -> Any:
        """Delete what can be deleted of the next page of old rows; return its last row, None: no page is left."""
        history = self._db.t.mark_history
        columns = (history.c.gone_at, history.c.kind, history.c.id)
        with self._db.write() as tx:
            edge = self._db.now(tx) - HISTORY_DAYS * 86_400_000
            old = select(*columns).where(history.c.instance == instance, history.c.gone_at < edge)
            if after is not None:
                old = old.where(beyond(columns, after))
            rows = tx.execute(old.order_by(*columns).limit(PAGE_ROWS)).all()
            if rows:
                of_page = refs_in(history, [Ref(row.kind, row.id) for row in rows])
                of_page &= history.c.instance == instance
                tx.execute(delete(history).where(of_page, ~self._is_needed(), ~self._is_older_decision(instance)))
        return rows[-1] if rows else None

    def _is_needed(self) -> ColumnElement[bool]:
        """Return the condition that a child still exists, or that a parent is still marked.

        A hold on an ancestor must reach a child that still exists; the rows of a chain are deleted from below. The
        undrop of a parent that is still marked must see that a child is gone.
        """
        mark, history = self._db.t.mark, self._db.t.mark_history
        child_history = history.alias()
        has_child = [
            exists().where(
                child.c.instance == history.c.instance,
                child.c.parent_kind == history.c.kind,
                child.c.parent_id == history.c.id,
            )
            for child in (mark, child_history)
        ]
        parent_is_marked = exists().where(
            mark.c.instance == history.c.instance,
            mark.c.kind == history.c.parent_kind,
            mark.c.id == history.c.parent_id,
        )
        return or_(*has_child, parent_is_marked)

    def _is_older_decision(self, instance: str) -> ColumnElement[bool]:
        """Return the condition that a mark was discarded while another one existed that is still here.

        That mark may be of another parent, which must not mark the discarded object again. Only its owner knows.
        """
        mark, history = self._db.t.mark, self._db.t.mark_history
        oldest = select(func.min(mark.c.marked_at)).where(mark.c.instance == instance).scalar_subquery()
        return and_(history.c.discarded.is_not(None), func.coalesce(history.c.gone_at >= oldest, False))
