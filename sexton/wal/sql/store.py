"""Read topics, their regions and purges, and enable or disable the purge of a topic."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.wal.model import Mode, Pin, Purge, Region, Topic
from sexton.wal.sql.rows import (
    deciding,
    ensure_topic,
    needs_deleted_entries,
    read_pins,
    read_regions,
    read_topic,
    read_topics,
    retains,
)

SHOWN_PURGES = 20


class WalStore:
    """Reads topics and regions for operators and rounds."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def topic(self, name: str) -> Topic:
        """Return a topic; raises ``UnknownTopic``."""
        with self._db.read() as c:
            return read_topic(self._db, c, name)

    def topics(
        self, after: str = "", limit: int = 100, *, instance: str | None = None, enabled: bool | None = None
    ) -> Sequence[Topic]:
        """Return the topics whose names come after one, by name.

        ``instance``: only its topics; None: those of all. ``enabled``: only these, or only the others.
        """
        t = self._db.t.wal_topic
        query = select(t.c.name).where(t.c.name > after).order_by(t.c.name).limit(limit)
        if instance is not None:
            query = query.where(t.c.instance == instance)
        if enabled is not None:
            query = query.where(t.c.enabled.is_(enabled))
        with self._db.read() as c:
            names = list(c.execute(query).scalars())
            topics = read_topics(self._db, c, names)
        return [topics[name] for name in names]

    def regions(self, name: str) -> Sequence[Region]:
        """Return the regions of a topic, those that need the oldest entries first."""
        with self._db.read() as c:
            regions = read_regions(self._db, c, [name], retains(self._db))[name]
        return sorted(regions, key=lambda region: (-1 if region.keep_from is None else region.keep_from, region.region))

    def silent_regions(self, name: str) -> Sequence[str]:
        """Return the regions of a topic whose first needed entry is not known, by name; they block its purge."""
        return sorted(region.region for region in self.regions(name) if region.keep_from is None)

    def pins(self, names: Sequence[str]) -> Sequence[Pin]:
        """Return the replays of topics that have not expired."""
        with self._db.read() as c:
            return [pin for pins in read_pins(self._db, c, names).values() for pin in pins]

    def lost(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return for each topic how many regions need deleted entries: LOSS. Topics without any are left out."""
        r = self._db.t.wal_region
        lost_regions = and_(in_list(r.c.topic, names), needs_deleted_entries(self._db))
        counts = select(r.c.topic, func.count().label("regions")).where(lost_regions).group_by(r.c.topic)
        with self._db.read() as c:
            return {row.topic: row.regions for row in c.execute(counts)}

    def enable(self, name: str, mode: Mode, instance: str) -> Topic:
        """Purge a topic of an instance from now on; repeatable. A topic may be enabled before it has a map.

        Raises:
            TopicOfAnotherInstance: another instance has mapped the topic, or it is enabled for another one.
        """
        t = self._db.t.wal_topic
        with self._db.write() as c:
            ensure_topic(self._db, c, name, instance)
            # Reasons from before it was enabled no longer matter, and the topic is due at once.
            columns: dict[str, Any] = {"ok_at": self._db.now(c), "checked_at": None, "blocked": {}, "fault": ""}
            c.execute(update(t).where(t.c.name == name, t.c.enabled.is_(False)).values(**columns))
            c.execute(update(t).where(t.c.name == name).values(enabled=True, mode=mode))
            return read_topic(self._db, c, name)

    def disable(self, name: str) -> Topic:
        """Stop purging a topic; repeatable. A deletion that Kafka has accepted proceeds. Raises ``UnknownTopic``."""
        t = self._db.t.wal_topic
        with deciding(self._db, name) as c:
            c.execute(update(t).where(t.c.name == name).values(enabled=False))
            return read_topic(self._db, c, name)

    def purges(self, name: str) -> Sequence[Purge]:
        """Return the last purges of a topic, the newest first."""
        t = self._db.t.wal_purge
        with self._db.read() as c:
            newest = c.execute(select(t).where(t.c.topic == name).order_by(t.c.id.desc()).limit(SHOWN_PURGES))
            return [Purge(**row._mapping) for row in newest]
