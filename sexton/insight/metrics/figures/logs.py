"""Read the figures of topics, in one statement, and of binlogs, journals and replicas, in ten, for any number of them.

Only unhealthy replicas are read, each kind through its own index. The queries return one row for each instance, and one
for each backend with pending cuts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import JSON, Connection, Row, and_, case, false, func, or_, select

from sexton.database.engine import Database, now_once
from sexton.database.tables import Tables
from sexton.insight.metrics.model import OTHER, OUTCOMES, STATES, BinlogFigures, WalFigures
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import needed_version
from sexton.wal.model import BlockReason, RegionState, WalSettings
from sexton.wal.sql.rows import needs_deleted_entries, retains

Values = dict[str, Any]
"""Fields of ``BinlogFigures`` that one query gives for an instance."""
MOST_BLOCKED = 100_000
"""At most so many pending copies are checked for another copy that blocks them: that takes half a second."""


def wal_figures(db: Database, c: Connection, settings: WalSettings) -> WalFigures:
    """Return the figures as the transaction sees them; ``settings``: how far behind a region is asked to flush."""
    t, r, p = db.t.wal_topic, db.t.wal_region, db.t.wal_pin
    entries = func.coalesce(t.c.log_end, 0) - func.coalesce(t.c.log_start, 0)
    is_active = p.c.expires_at > now_once()
    behind = t.c.log_end - r.c.keep_from
    has_passed = and_(r.c.state == RegionState.MOVED, r.c.keep_from >= r.c.until)  # NULL where it has no end
    lagging = (  # those that ``policy.regions_to_flush`` would name
        select(func.count())
        .select_from(t.join(r, t.c.name == r.c.topic))
        .where(t.c.enabled, t.c.quarantined == "", retains(db), r.c.state != RegionState.DROPPED)
        .where(func.coalesce(has_passed, false()).is_(False))
        .where(or_(behind > settings.flush_entries, behind * t.c.entry_bytes > settings.flush_bytes))
    )
    lost = select(func.count()).select_from(t.join(r, needs_deleted_entries(db))).where(t.c.enabled)
    figures_of_all = select(
        func.count().label("topics"),
        func.count().filter(t.c.quarantined != "").label("quarantined"),
        func.count().filter(t.c.fault != "").label("faulty"),
        func.min(t.c.ok_at).filter(t.c.quarantined == "").label("ok_since"),
        func.coalesce(func.sum(entries), 0).label("entries"),
        func.coalesce(func.sum(entries * t.c.entry_bytes), 0).label("bytes"),
        func.coalesce(func.sum(t.c.freed), 0).label("freed"),
        select(func.count()).where(is_active).scalar_subquery().label("replays"),
        select(func.min(p.c.opened_at)).where(is_active).scalar_subquery().label("oldest_replay"),
        lost.scalar_subquery().label("lost_regions"),
        lagging.scalar_subquery().label("lagging_regions"),
        func.json_agg(t.c.blocked, type_=JSON()).label("reasons"),
    )
    row: dict[str, Any] = dict(c.execute(figures_of_all.where(t.c.enabled)).one()._mapping)
    blocked: dict[str, int] = {str(why): 0 for why in BlockReason if why is not BlockReason.NOT_ENABLED}
    blocked_since: list[int] = []
    for blocks in row.pop("reasons") or ():
        for why, since in blocks.items():
            blocked[why] = blocked.get(why, 0) + 1
            if why != BlockReason.STOPPED:
                blocked_since.append(since)
    row |= {"bytes": int(row["bytes"]), "blocked": blocked, "blocked_since": min(blocked_since, default=None)}
    return WalFigures(**row)


class _View(NamedTuple):
    """The tables, in a transaction, at an instant."""

    t: Tables
    c: Connection
    now: int


def binlog_figures(db: Database, c: Connection, now: int) -> Sequence[BinlogFigures]:
    """Return the figures as the transaction sees them, by instance."""
    view = _View(db.t, c, now)
    by_instance: defaultdict[str, Values] = defaultdict(lambda: {"unwell": dict.fromkeys(STATES, 0)})
    for read in (_rounds, _logs, _consumers, _journal, _backends, _behind, _blocked, _unwell, _stale, _problems):
        for instance, values in read(view):
            unwell = by_instance[instance]["unwell"] | values.get("unwell", {})
            by_instance[instance] |= {**values, "unwell": unwell}
    return [BinlogFigures(instance=instance, **values) for instance, values in sorted(by_instance.items())]


def _rounds(v: _View) -> Iterator[tuple[str, Values]]:
    t, i = v.t.binlog_round, v.t.instance
    query = select(t.c.instance, t.c.ok_at, t.c.refusals, t.c.cuts, i.c.mode, i.c.enabled_at)
    for r in v.c.execute(query.join(i, i.c.id == t.c.instance)):
        quiet_since = max(r.ok_at or 0, r.enabled_at or 0) or None
        if r.mode != "enabled":
            quiet_since = None
        yield r.instance, {"refusals": r.refusals, "cuts": r.cuts, "quiet_since": quiet_since}


def _logs(v: _View) -> Iterator[tuple[str, Values]]:
    t = v.t.binlog_log
    database_log = t.alias("own")
    of_same_database = and_(
        database_log.c.instance == t.c.instance, database_log.c.db == t.c.db, database_log.c.tbl == ""
    )
    in_use = and_(t.c.enabled, t.c.dropped_at.is_(None), or_(t.c.tbl == "", database_log.c.enabled.is_(False)))
    query = select(
        t.c.instance,
        func.count().label("logs"),
        func.sum(t.c.records - t.c.gone_records).label("records"),
        func.sum(t.c.bytes - t.c.gone_bytes).label("bytes"),
        func.count(t.c.held_since).label("held"),
        func.min(t.c.held_since).label("held_since"),
        func.count(t.c.awaiting_since).label("waiting"),
        func.min(t.c.awaiting_since).label("waiting_since"),
    )
    for r in v.c.execute(query.join(database_log, of_same_database).where(in_use).group_by(t.c.instance)):
        yield _by_instance(r, records=int(r.records), bytes=int(r.bytes))


def _consumers(v: _View) -> Iterator[tuple[str, Values]]:
    t = v.t.binlog_consumer
    query = select(t.c.instance, func.count().label("consumers"), func.count(t.c.lost_at).label("lost_consumers"))
    yield from map(_by_instance, v.c.execute(query.group_by(t.c.instance)))


def _journal(v: _View) -> Iterator[tuple[str, Values]]:
    head, t = v.t.journal_head, v.t.journal_follower
    slowest = func.min(case((t.c.lost_at.is_(None), t.c.applied), else_=None))
    query = select(
        head.c.instance,
        (head.c.seq - head.c.trimmed).label("entries"),
        func.count(t.c.name).label("followers"),
        func.count(t.c.lost_at).label("lost_followers"),
        func.coalesce(head.c.seq - slowest, 0).label("lag"),
    )
    with_followers = head.outerjoin(t, t.c.instance == head.c.instance)
    by_head = query.select_from(with_followers).group_by(head.c.instance, head.c.seq, head.c.trimmed)
    yield from map(_by_instance, v.c.execute(by_head))


def _backends(v: _View) -> Iterator[tuple[str, Values]]:
    t = v.t.backend
    backends = select(t.c.instance, func.count().label("backends")).group_by(t.c.instance)
    yield from map(_by_instance, v.c.execute(backends))


def _unwell(v: _View) -> Iterator[tuple[str, Values]]:
    t = v.t.replica
    unhealthy = or_(t.c.bad_since.is_not(None), t.c.gap_since.is_not(None))
    # A bad copy counts as bad only: it cannot be read, so its gaps do not matter.
    gap = and_(t.c.bad_since.is_(None), t.c.gap_since.is_not(None))
    marked = and_(gap, t.c.failed >= 0)
    query = select(
        t.c.instance,
        func.count(t.c.bad_since).label("bad"),
        func.count(case((gap, 1))).label("gap"),
        func.count(case((marked, 1))).label("missing"),
        func.min(t.c.bad_since).label("bad_since"),
        func.min(case((marked, t.c.gap_since))).label("missing_since"),
    )
    for r in v.c.execute(query.where(unhealthy, t.c.dropped.is_(False)).group_by(t.c.instance)):
        states = {"bad": r.bad, "gap": r.gap, "missing": r.missing}
        yield r.instance, {"unwell": states, "bad_since": r.bad_since, "missing_since": r.missing_since}


def _stale(v: _View) -> Iterator[tuple[str, Values]]:
    t = v.t.replica
    stale = and_(t.c.fresh_until <= v.now, t.c.full_copy == "", t.c.dropped.is_(False))
    for r in v.c.execute(select(t.c.instance, func.count().label("stale")).where(stale).group_by(t.c.instance)):
        yield r.instance, {"unwell": {"stale": r.stale}}


def _problems(v: _View) -> Iterator[tuple[str, Values]]:
    """Yield the copies that are FULL_COPY_ONLY, that cross, and for which a backend reported a problem."""
    t = v.t.replica
    selected = or_(t.c.full_copy != "", t.c.problem != "", t.c.crossing)
    not_dropped = t.c.dropped.is_(False)
    by_outcome = [func.count(case((t.c.problem.like(f"{o}%"), 1))).label(f"p_{o}") for o in OUTCOMES[:-1]]
    query = select(
        t.c.instance,
        func.count(case((and_(not_dropped, t.c.full_copy == BY_LIMIT), 1))).label("limit"),
        func.count(case((and_(not_dropped, t.c.full_copy.not_in(("", BY_LIMIT))), 1))).label("person"),
        func.count(case((and_(not_dropped, t.c.crossing), 1))).label("crossing"),
        func.count(case((t.c.problem != "", 1))).label("p_any"),
        *by_outcome,
    )
    for r in v.c.execute(query.where(selected).group_by(t.c.instance)):
        states = {"full_copy_by_limit": r.limit, "full_copy_by_person": r.person, "crossing": r.crossing}
        problems = {o: getattr(r, f"p_{o}") for o in OUTCOMES[:-1]}
        yield r.instance, {"unwell": states, "problems": problems | {OTHER: r.p_any - sum(problems.values())}}


def _behind(v: _View) -> Iterator[tuple[str, Values]]:
    """Yield the number of copies with pending cuts, and of their backends."""
    t, b = v.t.replica, v.t.backend
    counts = select(t.c.instance, t.c.backend, func.count().label("behind")).where(t.c.desired > t.c.acked)
    pending = counts.group_by(t.c.instance, t.c.backend).subquery()
    query = select(
        pending.c.instance,
        func.count().label("behind_backends"),
        (func.count() - func.count(b.c.pulled_at)).label("unheard_backends"),
        func.min(b.c.pulled_at).label("pulled_since"),
        func.sum(pending.c.behind).label("behind"),
    )
    with_pulls = pending.outerjoin(b, and_(b.c.instance == pending.c.instance, b.c.name == pending.c.backend))
    for r in v.c.execute(query.select_from(with_pulls).group_by(pending.c.instance)):
        yield _by_instance(r, behind=int(r.behind))


def _blocked(v: _View) -> Iterator[tuple[str, Values]]:
    """Yield the number of these copies that another copy of their tablet blocks."""
    t = v.t.replica
    # A grant is permanent, so copies whose cut is granted are not blocked.
    ungranted = and_(t.c.desired > t.c.acked, t.c.granted < t.c.desired, t.c.dropped.is_(False))
    pending = select(t.c.instance, t.c.tablet, t.c.desired).where(ungranted).limit(MOST_BLOCKED).subquery()
    copy = t.alias("copy")
    same_tablet = and_(
        copy.c.instance == pending.c.instance, copy.c.tablet == pending.c.tablet, copy.c.dropped.is_(False)
    )
    lowest = select(func.coalesce(func.min(needed_version(copy, v.now)), 0)).where(same_tablet).scalar_subquery()
    blocked = select(pending.c.instance, func.count().label("blocked")).where(lowest <= pending.c.desired)
    yield from map(_by_instance, v.c.execute(blocked.group_by(pending.c.instance)))


def _by_instance(row: Row[Any], **more: int) -> tuple[str, Values]:
    """Return a row's instance, and its other columns as values."""
    values = {**row._mapping, **more}
    return values.pop("instance"), values
