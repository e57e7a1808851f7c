"""Convert rows to values, and open the one kind of transaction that decides about topics."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.wal.model import BlockReason, Pin, Region, RegionState, Topic
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
    return {row.name: _topic(row) for row in c.execute(select(t).where(in_list(t.c.name, names)))}


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


def _topic(row: Any) -> Topic:
    columns = {name: value for name, value in row._mapping.items() if name != "seq"}
    # A newer process may know more reasons; after a roll-back its rows still name them.
    columns["blocked"] = {why: since for why, since in columns["blocked"].items() if why in list(BlockReason)}
    return Topic(**columns)
