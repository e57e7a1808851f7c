"""List the topics that are due, page by page: those whose interval is over, and those with much to delete."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, delete, func, or_, select

from sexton.database.engine import Database
from sexton.operators.call_log.work import record_work
from sexton.wal.messages import TopicPage, TopicPages
from sexton.wal.model import WalSettings
from sexton.wal.sql.rows import retains

PAGE_TOPICS = 100
MAX_PAGES = 20
"""Pages of one run; the next run continues with the other topics."""
WEIGH_MS = 86_400_000
"""The average size of a topic's entries is estimated again after this time."""
PURGE_RETENTION_MS = 90 * 86_400_000
"""How long the row of a raised floor is kept; the topic's count of freed entries is kept permanently."""


class WalSchedule:
    """Knows which topics are due."""

    def __init__(self, db: Database, settings: WalSettings) -> None:
        self._db, self._settings = db, settings

    def pages(self, after: str = "") -> TopicPages:
        """Return the topics that are due, ordered by name; a page consists of its first and last name.

        ``after``: only topics whose names come after this one. A round visits each topic once: a topic that stays due
        (its log does not answer, something blocks it) delays no other.
        """
        t = self._db.t.wal_topic
        max_topics = PAGE_TOPICS * MAX_PAGES
        with self._db.read() as c:
            began = self._db.now(c)
            due = select(t.c.name).where(t.c.name > after, self._due(began)).order_by(t.c.name)
            due_names = list(c.execute(due.limit(max_topics + 1)).scalars())
        names = due_names[:max_topics]
        chunks = [names[n : n + PAGE_TOPICS] for n in range(0, len(names), PAGE_TOPICS)]
        pages = tuple(TopicPage(first=chunk[0], last=chunk[-1], began=began) for chunk in chunks)
        return TopicPages(pages=pages, topics=len(names), more=len(due_names) > max_topics)

    def any_due(self) -> bool:
        """Return whether any topic is due; called at each tick."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            if c.execute(select(t.c.name).where(t.c.enabled).limit(1)).first() is None:
                return False
            return c.execute(select(t.c.name).where(self._due(self._db.now(c))).limit(1)).first() is not None

    def names(self, page: TopicPage) -> Sequence[str]:
        """Return the topics of a page: the same when repeated, even if some of them were purged since."""
        with self._db.read() as c:
            return list(c.execute(self._of_page(page)).scalars())

    def without_entry_size(self, page: TopicPage) -> Sequence[str]:
        """Return the topics of a page whose average entry size is unknown, or was estimated over a day ago."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            outdated = or_(t.c.entry_bytes_at.is_(None), t.c.entry_bytes_at <= self._db.now(c) - WEIGH_MS)
            return list(c.execute(self._of_page(page).where(outdated, t.c.quarantined == "")).scalars())

    def record_purge(self, topics: str) -> None:
        """Log that a purge begins; ``topics``: which."""
        with self._db.write() as c:
            record_work(self._db, c, "wal purge", subject=topics)

    def forget(self) -> None:
        """Delete the rows of old floors and of expired pins."""
        purge, pin = self._db.t.wal_purge, self._db.t.wal_pin
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(delete(purge).where(purge.c.at <= now - PURGE_RETENTION_MS))
            c.execute(delete(pin).where(pin.c.expires_at <= now))

    def _of_page(self, page: TopicPage) -> Select[str]:
        t = self._db.t.wal_topic
        within = t.c.name.between(page.first, page.last)
        return select(t.c.name).where(within, self._due(page.began)).order_by(t.c.name).limit(2 * PAGE_TOPICS)

    def _due(self, began: int) -> ColumnElement[bool]:
        """Return the condition that a topic belongs to the run that began then, also once that run has purged it."""
        t, settings = self._db.t.wal_topic, self._settings
        needs, entries = self._reclaimable()
        enough = or_(entries >= settings.purge_entries, entries * t.c.entry_bytes >= settings.purge_bytes)
        much_to_delete = select(needs.c.topic).where(needs.c.topic == t.c.name, enough).exists()
        large = and_(t.c.quarantined == "", much_to_delete)
        interval_over = or_(t.c.checked_at.is_(None), t.c.checked_at <= began - settings.interval_seconds * 1000)
        purged_in_this_run = t.c.checked_at >= began
        return and_(t.c.enabled, or_(interval_over, purged_in_this_run, large))

    def _reclaimable(self) -> tuple[Any, ColumnElement[int]]:
        """Return the lowest need of each topic, and the number of entries between the deleted ones and that need."""
        t, r = self._db.t.wal_topic, self._db.t.wal_region
        lowest = func.min(func.coalesce(r.c.keep_from, 0)).label("lowest")
        needs = select(r.c.topic, lowest).where(retains(self._db)).group_by(r.c.topic).subquery("needs")
        start, floor = func.coalesce(t.c.log_start, 0), func.coalesce(t.c.floor, 0)
        return needs, needs.c.lowest - case((start > floor, start), else_=floor)
