"""Between rows and values, and the one way to decide about a topic."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list, upsert
from sexton.wal.model import Pin, Region, RegionState, Topic, Why
from sexton.wal.port import UnknownTopic


@contextmanager
def deciding(db: Database, *topics: str) -> Iterator[Connection]:
    """Open a transaction that decides about these topics; no other transaction decides about them meanwhile.

    As in ``sexton.database.guard``, the lock is its own statement and the checks are later ones. Topics are locked in
    the order of their names, which prevents deadlocks. Unknown topics are skipped.
    """
    with db.write() as c:
        t = db.t.wal_topic
        of = in_list(db, t.c.name, topics)
        if db.dialect == "postgresql" and len(topics) > 1:
            c.execute(select(t.c.name).where(of).order_by(t.c.name).with_for_update())
        c.execute(update(t).where(of).values(seq=t.c.seq + 1))
        yield c


def topics(db: Database, c: Connection, names: Iterable[str]) -> dict[str, Topic]:
    """Return those that are known, by name."""
    t = db.t.wal_topic
    return {r.name: topic(r) for r in c.execute(select(t).where(in_list(db, t.c.name, names)))}


def known(db: Database, c: Connection, name: str) -> Topic:
    """Return a topic; raises ``UnknownTopic``."""
    found = topics(db, c, [name])
    if not found:
        raise UnknownTopic(name)
    return found[name]


def regions(db: Database, c: Connection, names: Sequence[str], *, lock: bool = False) -> dict[str, list[Region]]:
    """Return the regions of each of these topics, those that went too.

    ``lock``: nobody reports for them until the transaction ends. Who locks rows of regions does so in this order.
    """
    t = db.t.wal_region
    found: dict[str, list[Region]] = {name: [] for name in names}
    asked = select(t).where(in_list(db, t.c.topic, names)).order_by(t.c.topic, t.c.region)
    for row in c.execute(asked.with_for_update() if lock else asked):
        found[row.topic].append(Region(**row._mapping))
    return found


def pins(db: Database, c: Connection, names: Sequence[str]) -> dict[str, list[Pin]]:
    """Return the replays of each of these topics whose pins live."""
    t, now = db.t.wal_pin, db.now(c)
    found: dict[str, list[Pin]] = {name: [] for name in names}
    for row in c.execute(select(t).where(in_list(db, t.c.topic, names), t.c.expires_at > now)):
        found[row.topic].append(Pin(**row._mapping))
    return found


def topic(row: Any) -> Topic:
    """Return the row as a value."""
    its = {k: v for k, v in row._mapping.items() if k != "seq"}
    # A newer process may know more reasons; after a roll-back its rows are still there.
    return Topic(**its | {"blocked": {why: at for why, at in its["blocked"].items() if why in list(Why)}})


def make(db: Database, c: Connection, name: str) -> None:
    """Add a topic that is not known yet."""
    t = db.t.wal_topic
    c.execute(upsert(db, t).values(name=name).on_conflict_do_nothing())


def lost(db: Database) -> ColumnElement[bool]:
    """Return what makes a region one that needs what is gone from its topic: LOSS, as ``policy.lost`` has it."""
    t, r = db.t.wal_topic, db.t.wal_region
    return and_(t.c.name == r.c.topic, r.c.state != RegionState.GONE, r.c.keep_from < t.c.log_start)


def most(db: Database, a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the larger of two, of which either may be NULL."""
    if db.dialect == "postgresql":
        return func.greatest(a, b)
    return func.coalesce(func.max(a, b), a, b)
