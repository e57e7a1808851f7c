"""Which topics are to be looked at now, page by page: those whose time has come, and those of which much could go."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, delete, func, or_, select

from sexton.database.engine import Database
from sexton.wal.messages import TopicPage, TopicPages
from sexton.wal.model import RegionState, WalSettings

PAGE_TOPICS = 100
MOST_PAGES = 20
"""In one run; the next one goes on with the others."""
WEIGH_MS = 86_400_000
KEPT_MS = 90 * 86_400_000
"""For so long a floor that was raised is remembered; what it freed is counted for ever."""


class WalSchedule:
    """Whose turn it is."""

    def __init__(self, db: Database, terms: WalSettings) -> None:
        self._db, self._terms = db, terms

    def pages(self, after: str = "") -> TopicPages:
        """Return the topics that are due, in the order of their names: of each page only its first and last one.

        ``after``: only those whose names come after this one. A round goes once through all of them: one that is due
        for ever (its log does not answer, something blocks it) keeps no other from its turn.
        """
        t = self._db.t.wal_topic
        with self._db.read() as c:
            began = self._db.now(c)
            asked = select(t.c.name).where(t.c.name > after, self._due(began)).order_by(t.c.name)
            names = list(c.execute(asked.limit(PAGE_TOPICS * MOST_PAGES + 1)).scalars())
        more, names = len(names) > PAGE_TOPICS * MOST_PAGES, names[: PAGE_TOPICS * MOST_PAGES]
        cut = [names[n : n + PAGE_TOPICS] for n in range(0, len(names), PAGE_TOPICS)]
        return TopicPages(
            pages=tuple(TopicPage(first=p[0], last=p[-1], began=began) for p in cut), topics=len(names), more=more
        )

    def due(self) -> bool:
        """Tell whether there is any: asked with each tick."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            if c.execute(select(t.c.name).where(t.c.enabled).limit(1)).first() is None:
                return False
            return c.execute(select(t.c.name).where(self._due(self._db.now(c))).limit(1)).first() is not None

    def names(self, page: TopicPage) -> Sequence[str]:
        """Return the topics of a page: the same again, also when some of them were looked at since."""
        with self._db.read() as c:
            return list(c.execute(self._of(page)).scalars())

    def unweighed(self, page: TopicPage) -> Sequence[str]:
        """Return those of which nobody knows how large an entry is, or whose answer is old."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            old = or_(t.c.weighed_at.is_(None), t.c.weighed_at <= self._db.now(c) - WEIGH_MS)
            return list(c.execute(self._of(page).where(old, t.c.quarantined == "")).scalars())

    def forget(self) -> None:
        """Let go of what nobody asks for any more: floors of months ago, and replays that ended."""
        purge, pin = self._db.t.wal_purge, self._db.t.wal_pin
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(delete(purge).where(purge.c.at <= now - KEPT_MS))
            c.execute(delete(pin).where(pin.c.expires_at <= now))

    def _of(self, page: TopicPage) -> Select[str]:
        t = self._db.t.wal_topic
        within = t.c.name.between(page.first, page.last)
        return select(t.c.name).where(within, self._due(page.began)).order_by(t.c.name).limit(2 * PAGE_TOPICS)

    def _due(self, began: int) -> ColumnElement[bool]:
        """Return what makes a topic one of the run that began then; those that it has looked at are still."""
        t, terms = self._db.t.wal_topic, self._terms
        needs, entries = self._reclaimable()
        much = or_(entries >= terms.purge_entries, entries * t.c.entry_bytes >= terms.purge_bytes)
        large = and_(t.c.quarantined == "", select(needs.c.topic).where(needs.c.topic == t.c.name, much).exists())
        turn = or_(t.c.looked_at.is_(None), t.c.looked_at <= began - terms.interval_seconds * 1000)
        return and_(t.c.enabled, or_(turn, t.c.looked_at >= began, large))

    def _reclaimable(self) -> tuple[Any, ColumnElement[int]]:
        """Return what topics need, and how many entries lie between what is gone of one and what it needs."""
        t, r = self._db.t.wal_topic, self._db.t.wal_region
        lowest = func.min(func.coalesce(r.c.keep_from, 0)).label("lowest")
        needs = select(r.c.topic, lowest).where(r.c.state != RegionState.GONE).group_by(r.c.topic).subquery("needs")
        start, floor = func.coalesce(t.c.log_start, 0), func.coalesce(t.c.floor, 0)
        return needs, needs.c.lowest - case((start > floor, start), else_=floor)
