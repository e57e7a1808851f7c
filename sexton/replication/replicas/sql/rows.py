"""Read replicas from their rows, and compute in SQL what they still need, as ``policy.lowest_needed_version`` does."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, Text, and_, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import distinct_on

from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.replication.agent.model import MAX_VERSION
from sexton.replication.log_rows import scope_condition
from sexton.replication.replicas.model import Replica

ALL_GRANTED = {"dropped": True, "desired": MAX_VERSION, "granted": MAX_VERSION}
"""The values of a dropped replica: its backend may delete everything, and its acknowledgement deletes the row."""


class NeededVersion(NamedTuple):
    """The first version that a replica of a tablet still needs, and its backend; 0 and None if no replica counts."""

    version: int
    backend: str | None


def needed_versions(db: Database, c: Connection, instance: str, tablets: Iterable[str]) -> Mapping[str, NeededVersion]:
    """Return by tablet the first version that one of its replicas still needs; tablets without replicas are left out.

    A dropped replica needs nothing. If no other replica counts, no version may be deleted.
    """
    t, need = db.t.replica, needed_version(db.t.replica, db.now(c))
    replicas = and_(t.c.instance == instance, in_list(t.c.tablet, tablets), t.c.dropped.is_(False))
    deciding_backend = case((need.is_not(None), t.c.backend))
    neediest_first = (t.c.tablet, need.nulls_last(), t.c.backend)
    neediest = select(t.c.tablet, func.coalesce(need, 0), deciding_backend).ext(distinct_on(t.c.tablet))
    rows = c.execute(neediest.where(replicas).order_by(*neediest_first))
    return {tablet: NeededVersion(version, backend) for tablet, version, backend in rows}


def committed_versions(
    db: Database, c: Connection, instance: str, replicas: Collection[Replica]
) -> Mapping[tuple[str, str, str], int]:
    """Return by (database, table, partition) of replicas the newest version that the owner committed, where known."""
    newest: dict[tuple[str, str, str], int] = {}
    dbs, tables, parts = ({getattr(r, column) for r in replicas} for column in ("db", "tbl", "part"))
    for t in (db.t.binlog_partition_version, db.t.binlog_partition_cut) if replicas else ():
        of_table = and_(t.c.instance == instance, in_list(t.c.db, dbs), in_list(t.c.tbl, tables))
        partition = (t.c.db, t.c.tbl, t.c.part)
        highest = select(*partition, func.max(t.c.version).label("version")).group_by(*partition)
        for row in c.execute(highest.where(of_table, in_list(t.c.part, parts))):
            key = (row.db, row.tbl, row.part)
            newest[key] = max(row.version, newest.get(key, row.version))
    return newest


def record_released_versions(db: Database, c: Connection, instance: str, versions: Mapping[str, int]) -> None:
    """Record up to which version each tablet's data may be deleted from now on, on any backend.

    A FULL_COPY_ONLY replica counts again only when it has at least that version: no other replica can supply it the
    deleted versions one by one.
    """
    if versions:
        t = db.t.replica
        data = [{"tablet": tablet, "version": version} for tablet, version in versions.items()]
        released = as_rows(data, tablet=Text(), version=BigInteger())
        lower = and_(t.c.instance == instance, t.c.tablet == released.c.tablet, t.c.gone < released.c.version)
        c.execute(update(t).where(lower).values(gone=released.c.version))


def needed_version(t: FromClause, now: int) -> ColumnElement[int]:
    """Return the first version that a replica needs, NULL if it does not count."""
    unknown = or_(t.c.bad_since.is_not(None), t.c.fresh_until <= now)
    return case((t.c.full_copy != "", None), (unknown, 0), else_=t.c.needs)


def healthy(t: FromClause, now: int) -> ColumnElement[bool]:
    """Return the condition that a replica counts and another one can be copied from it."""
    return and_(t.c.full_copy == "", t.c.bad_since.is_(None), t.c.gap_since.is_(None), t.c.fresh_until > now)


def drop_copies(db: Database, c: Connection, instance: str, name: str, table: str, limit: int) -> int:
    """Grant everything to at most ``limit`` replicas of a dropped table or database; return how many were changed."""
    t = db.t.replica
    of_table = scope_condition(t, instance, name, table)
    chosen = select(t.c.uid, t.c.backend).where(of_table, t.c.dropped.is_(False)).limit(limit).subquery()
    same_copy = and_(t.c.instance == instance, t.c.uid == chosen.c.uid, t.c.backend == chosen.c.backend)
    return len(c.execute(update(t).where(same_copy).values(**ALL_GRANTED).returning(t.c.uid)).all())


def count_copies(
    db: Database, c: Connection, instance: str, name: str, table: str = "", *, dropped: bool = True
) -> int:
    """Return how many replicas a database, or one table of it, has; ``dropped``: whether dropped ones count."""
    t = db.t.replica
    counted = select(func.count()).select_from(t).where(scope_condition(t, instance, name, table))
    return int(c.execute(counted if dropped else counted.where(t.c.dropped.is_(False))).scalar_one())
