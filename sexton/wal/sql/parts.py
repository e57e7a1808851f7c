"""Decide about many topics in parts, one transaction each: renewals of replays wait while their topic is locked."""

import logging
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list
from sexton.wal.sql.rows import retains

log = logging.getLogger(__name__)

MAX_PART_REGIONS = 10_000
"""Regions of a part; a topic with more is a part of its own."""


def in_parts(db: Database, names: Iterable[str], decide: Callable[[Sequence[str]], None]) -> None:
    """Call a function for each part of some topics; it decides about them in one transaction.

    A part whose topics another transaction holds for seconds is left out: they are due again at once, and delay no
    others. If that is so for all parts, the error is raised. Unknown topics are left out, too.
    """
    parts = _parts(db, names)
    locked = 0
    for part in parts:
        try:
            decide(part)
        except OperationalError as e:
            locked += 1
            if not is_locked(e) or locked == len(parts):
                raise
            log.warning("topics %s to %s are locked by another transaction; left to the next purge", part[0], part[-1])


def _parts(db: Database, names: Iterable[str]) -> list[list[str]]:
    """Return the topics that are known in parts: each of one instance, with few regions."""
    t, r = db.t.wal_topic, db.t.wal_region
    names = list(names)
    count = select(r.c.topic, func.count().label("regions")).where(in_list(r.c.topic, names), retains(db))
    counts = count.group_by(r.c.topic).subquery()
    query = select(t.c.name, t.c.instance, func.coalesce(counts.c.regions, 0).label("regions"))
    query = query.outerjoin_from(t, counts, counts.c.topic == t.c.name).where(in_list(t.c.name, names))
    parts: list[list[str]] = []
    instance, regions = "", 0
    with db.read() as c:
        for topic in c.execute(query.order_by(t.c.instance, t.c.name)):
            regions += topic.regions
            if not parts or topic.instance != instance or regions > MAX_PART_REGIONS:
                parts.append([])
                regions = topic.regions
            parts[-1].append(topic.name)
            instance = topic.instance
    return parts
