"""Topics, as rows: what is known, and whether each is purged at all."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.wal.model import Mode, Purge, Region, RegionState, Topic
from sexton.wal.sql.rows import deciding, known, lost, make, regions, topics

NEWEST = 20


class WalStore:
    """Topics and their regions, for people and for rounds."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def topic(self, name: str) -> Topic:
        """Return a topic; raises ``UnknownTopic``."""
        with self._db.read() as c:
            return known(self._db, c, name)

    def topics(self, after: str = "", limit: int = 100, *, enabled: bool | None = None) -> Sequence[Topic]:
        """Return the topics behind a name, in the order of names; ``enabled``: only those that are, or are not."""
        t = self._db.t.wal_topic
        asked = select(t.c.name).where(t.c.name > after).order_by(t.c.name).limit(limit)
        if enabled is not None:
            asked = asked.where(t.c.enabled.is_(enabled))
        with self._db.read() as c:
            names = list(c.execute(asked).scalars())
            found = topics(self._db, c, names)
        return [found[name] for name in names]

    def regions(self, name: str) -> Sequence[Region]:
        """Return the regions of a topic, who needs the oldest entries first."""
        with self._db.read() as c:
            here = [its for its in regions(self._db, c, [name])[name] if its.state is not RegionState.GONE]
            return sorted(here, key=lambda r: (-1 if r.keep_from is None else r.keep_from, r.region))

    def lost(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return how many regions of each topic need what is gone: LOSS. Those without any are left out."""
        r = self._db.t.wal_region
        of = and_(in_list(self._db, r.c.topic, names), lost(self._db))
        with self._db.read() as c:
            found = c.execute(select(r.c.topic, func.count().label("n")).where(of).group_by(r.c.topic))
            return {row.topic: row.n for row in found}

    def enable(self, name: str, mode: Mode) -> Topic:
        """Let a topic be purged from now on; repeatable. A topic may be enabled before it has a map."""
        t = self._db.t.wal_topic
        with self._db.write() as c:
            make(self._db, c, name)
            # What kept it before it was enabled is nobody's concern, and its turn is at once.
            new: dict[str, Any] = {"ok_at": self._db.now(c), "looked_at": None, "blocked": {}, "fault": ""}
            c.execute(update(t).where(t.c.name == name, t.c.enabled.is_(False)).values(**new))
            c.execute(update(t).where(t.c.name == name).values(enabled=True, mode=mode))
            return known(self._db, c, name)

    def disable(self, name: str) -> Topic:
        """Purge a topic no more; repeatable. What Kafka was told to delete already goes. Raises ``UnknownTopic``."""
        t = self._db.t.wal_topic
        with deciding(self._db, name) as c:
            c.execute(update(t).where(t.c.name == name).values(enabled=False))
            return known(self._db, c, name)

    def purges(self, name: str) -> Sequence[Purge]:
        """Return the newest purges of a topic, the newest first."""
        t = self._db.t.wal_purge
        with self._db.read() as c:
            newest = c.execute(select(t).where(t.c.topic == name).order_by(t.c.id.desc()).limit(NEWEST))
            return [Purge(**row._mapping) for row in newest]
