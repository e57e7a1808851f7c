"""Read topics, their regions and purges, enable or disable a topic, list those that are due; decide about topics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, literal_column, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.live import Live
from sexton.operators.call_log import record_work
from sexton.wal.model import BlockReason, Mode, Pin, Purge, Region, RegionState, Topic, WalSettings
from sexton.wal.port import TopicOfAnotherInstance, UnknownTopic


@contextmanager
def deciding(db: Database, *topics: str) -> Iterator[Connection]:
    """Open a transaction that decides about these topics; no other transaction decides about them meanwhile.

    As in ``sexton.database.guard``, the lock is its own statement and the checks are later ones. Topics are locked in
    the order of their names, which prevents deadlocks. Unknown topics are skipped.
    """
    with db.write() as c:
        t = db.t.wal_topic
        named_topics = in_list(t.c.name, topics)
        if len(topics) > 1:
            c.execute(select(t.c.name).where(named_topics).order_by(t.c.name).with_for_update())
        c.execute(update(t).where(named_topics).values(seq=t.c.seq + 1))
        yield c


def read_topics(db: Database, c: Connection, names: Iterable[str]) -> dict[str, Topic]:
    """Return the topics that are known, by name."""
    t = db.t.wal_topic
    topics: dict[str, Topic] = {}
    for row in c.execute(select(t).where(in_list(t.c.name, names))):
        columns = {name: value for name, value in row._mapping.items() if name != "seq"}
        # A newer process may know more reasons; after a roll-back its rows still name them.
        columns["blocked"] = {why: since for why, since in columns["blocked"].items() if why in list(BlockReason)}
        topics[row.name] = Topic(**columns)
    return topics


def read_topic(db: Database, c: Connection, name: str) -> Topic:
    """Return a topic; raises ``UnknownTopic``."""
    topics = read_topics(db, c, [name])
    if not topics:
        raise UnknownTopic(name)
    return topics[name]


def retains(db: Database) -> ColumnElement[bool]:
    """Return the condition that a region is mapped or still retains entries; GONE ones may be many."""
    return db.t.wal_region.c.state != literal_column(f"'{RegionState.GONE}'")


def read_regions(
    db: Database, c: Connection, names: Sequence[str], condition: ColumnElement[bool], *, lock: bool = False
) -> dict[str, list[Region]]:
    """Return the regions of each topic that satisfy a condition.

    ``lock``: block reports for these regions until the transaction ends. Every transaction that locks rows of regions
    does so in this order, which prevents deadlocks.
    """
    r = db.t.wal_region
    regions: dict[str, list[Region]] = {name: [] for name in names}
    query = select(r).where(in_list(r.c.topic, names), condition).order_by(r.c.topic, r.c.region)
    for row in c.execute(query.with_for_update() if lock else query):
        regions[row.topic].append(Region(**row._mapping))
    return regions


def lock_regions(db: Database, c: Connection, condition: ColumnElement[bool]) -> None:
    """Lock the rows of regions in the order of ``read_regions``: an UPDATE of several would lock them in any order."""
    r = db.t.wal_region
    in_order = select(r.c.region).where(condition).order_by(r.c.topic, r.c.region).with_for_update().subquery()
    c.execute(select(func.count()).select_from(in_order))


def read_pins(db: Database, c: Connection, names: Sequence[str]) -> dict[str, list[Pin]]:
    """Return the pins of each topic that have not expired."""
    t, now = db.t.wal_pin, db.now(c)
    pins: dict[str, list[Pin]] = {name: [] for name in names}
    for row in c.execute(select(t).where(in_list(t.c.topic, names), t.c.expires_at > now)):
        pins[row.topic].append(Pin(**row._mapping))
    return pins


def ensure_topic(db: Database, c: Connection, name: str, instance: str) -> None:
    """Add a topic of an instance unless it is known already; raises ``TopicOfAnotherInstance``.

    Only ``sexton wal assign`` gives a topic to another instance. The caller decides about the topic later, and checks
    again.
    """
    c.execute(upsert(db.t.wal_topic).values(name=name, instance=instance).on_conflict_do_nothing())
    check_instance(read_topic(db, c, name), instance)


def check_instance(topic: Topic, instance: str) -> None:
    """Raise ``TopicOfAnotherInstance`` unless the topic belongs to the instance."""
    if topic.instance != instance:
        raise TopicOfAnotherInstance(topic.name, instance)


def needs_deleted_entries(db: Database) -> ColumnElement[bool]:
    """Return the condition that a region needs deleted entries of its topic: LOSS, as in ``policy.losses``."""
    t, r = db.t.wal_topic, db.t.wal_region
    return and_(t.c.name == r.c.topic, retains(db), r.c.keep_from < t.c.log_start)


SHOWN_PURGES = 20
PURGE_RETENTION_MS = 90 * 86_400_000
"""How long the row of a raised floor is kept; the topic's count of freed entries is kept permanently."""


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


class WalSchedule:
    """Knows which topics are due: those whose interval is over, and those with much to delete."""

    def __init__(self, db: Database, settings: WalSettings | Live[WalSettings]) -> None:
        self._db, self._settings = db, Live.of(settings)

    def due(self, after: str, at_most: int) -> Sequence[str]:
        """Return so many topics that are due, ordered by name.

        ``after``: only topics whose names come after this one. A round visits each topic once: a topic that stays due
        (its log does not answer, something blocks it) delays no other.
        """
        t, settings = self._db.t.wal_topic, self._settings()
        with self._db.read() as c:
            due = select(t.c.name).where(t.c.name > after, self._due(self._db.now(c), settings))
            return list(c.execute(due.order_by(t.c.name).limit(at_most)).scalars())

    def any_due(self) -> bool:
        """Return whether any topic is due; called at each tick."""
        t, settings = self._db.t.wal_topic, self._settings()
        with self._db.read() as c:
            if c.execute(select(t.c.name).where(t.c.enabled).limit(1)).first() is None:
                return False
            due = select(t.c.name).where(self._due(self._db.now(c), settings))
            return c.execute(due.limit(1)).first() is not None

    def record_purges(self, topics: Sequence[str]) -> None:
        """Log that the purge of some topics begins, in one row; those that rise have rows of their own floors."""
        with self._db.write() as c:
            record_work(self._db, c, "wal purge", subject=", ".join(topics))

    def forget(self) -> None:
        """Delete the rows of old floors and of expired pins."""
        purge, pin = self._db.t.wal_purge, self._db.t.wal_pin
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(delete(purge).where(purge.c.at <= now - PURGE_RETENTION_MS))
            c.execute(delete(pin).where(pin.c.expires_at <= now))

    def _due(self, now: int, settings: WalSettings) -> ColumnElement[bool]:
        """Return the condition that a topic is due: its interval is over, or a purge could delete much."""
        t, r = self._db.t.wal_topic, self._db.t.wal_region
        lowest = func.min(func.coalesce(r.c.keep_from, 0)).label("lowest")
        needs = select(r.c.topic, lowest).where(retains(self._db)).group_by(r.c.topic).subquery("needs")
        start, floor = func.coalesce(t.c.log_start, 0), func.coalesce(t.c.floor, 0)
        entries = needs.c.lowest - func.greatest(start, floor)  # between the deleted ones and the lowest need
        size = entries * t.c.entry_bytes
        enough = or_(entries >= settings.purge_trigger_entries, size >= settings.purge_trigger_bytes)
        much_to_delete = select(needs.c.topic).where(needs.c.topic == t.c.name, enough).exists()
        large = and_(t.c.quarantined == "", much_to_delete)
        interval_over = t.c.checked_at <= now - settings.auto_purge_interval_seconds * 1000
        in_future = t.c.checked_at > now  # the clock was ahead once
        return and_(t.c.enabled, or_(t.c.checked_at.is_(None), interval_over, in_future, large))
