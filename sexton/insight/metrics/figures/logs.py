"""Read the figures of topics, in one statement, and of binlogs, journals and replicas, in ten, for any number of them.

Only unhealthy replicas are read, each kind through its own index. The queries return one row for each instance.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import JSON, Connection, Select, and_, case, false, func, not_, or_, select

from sexton.database.engine import Database, now_once
from sexton.database.tables import Tables
from sexton.insight.metrics.model import OTHER, OUTCOMES, STATES, BinlogFigures, WalFigures
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import needed_version
from sexton.wal.model import BlockReason, RegionState, WalSettings
from sexton.wal.sql.store import needs_deleted_entries, retains

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
        .where(or_(behind > settings.trigger_flush_entries, behind * t.c.entry_bytes > settings.trigger_flush_bytes))
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


def binlog_figures(db: Database, c: Connection, now: int) -> Sequence[BinlogFigures]:
    """Return the figures as the transaction sees them, by instance."""
    t = db.t
    by_instance: defaultdict[str, dict[str, Any]] = defaultdict(
        lambda: {"unwell": dict.fromkeys(STATES, 0), "problems": dict.fromkeys(OUTCOMES, 0)}
    )
    for query in (*_binlogs(t), *_cuts(t, now), *_health(t, now)):
        for row in c.execute(query):
            for name, value in row._mapping.items():
                figure, _, label = name.partition(".")
                if label:
                    by_instance[row.instance][figure][label] = value
                else:
                    by_instance[row.instance][figure] = value
    return [BinlogFigures(**values) for _, values in sorted(by_instance.items())]


# Each query returns a row for each instance: its name, and columns with the names of figures, or FIGURE.LABEL.


def _binlogs(tables: Tables) -> Iterator[Select[Any]]:
    """Yield the queries of rounds, of logs, of consumers, and of journals."""
    round_, i = tables.binlog_round, tables.instance
    since = func.greatest(round_.c.ok_at, i.c.enabled_at, type_=round_.c.ok_at.type)
    quiet_since = case((i.c.mode == "enabled", since)).label("quiet_since")
    rounds = select(round_.c.instance, round_.c.refusals, round_.c.cuts, quiet_since)
    yield rounds.join(i, i.c.id == round_.c.instance)
    t = tables.binlog_log
    database_log = t.alias("own")
    of_same_database = and_(
        database_log.c.instance == t.c.instance, database_log.c.db == t.c.db, database_log.c.tbl == ""
    )
    in_use = and_(t.c.enabled, t.c.dropped_at.is_(None), or_(t.c.tbl == "", database_log.c.enabled.is_(False)))
    logs = select(
        t.c.instance,
        func.count().label("logs"),
        func.sum(t.c.records - t.c.gone_records).label("records"),
        func.sum(t.c.bytes - t.c.gone_bytes).label("bytes"),
        func.count(t.c.held_since).label("held"),
        func.min(t.c.held_since).label("held_since"),
        func.count(t.c.awaiting_since).label("waiting"),
        func.min(t.c.awaiting_since).label("waiting_since"),
    )
    yield logs.join(database_log, of_same_database).where(in_use).group_by(t.c.instance)
    consumer = tables.binlog_consumer
    lost = func.count(consumer.c.lost_at).label("lost_consumers")
    yield select(consumer.c.instance, func.count().label("consumers"), lost).group_by(consumer.c.instance)
    head, follower = tables.journal_head, tables.journal_follower
    slowest = func.min(case((follower.c.lost_at.is_(None), follower.c.applied), else_=None))
    journals = select(
        head.c.instance,
        (head.c.seq - head.c.trimmed).label("entries"),
        func.count(follower.c.name).label("followers"),
        func.count(follower.c.lost_at).label("lost_followers"),
        func.coalesce(head.c.seq - slowest, 0).label("lag"),
    )
    with_followers = head.outerjoin(follower, follower.c.instance == head.c.instance)
    yield journals.select_from(with_followers).group_by(head.c.instance, head.c.seq, head.c.trimmed)


def _cuts(tables: Tables, now: int) -> Iterator[Select[Any]]:
    """Yield the queries of backends, of copies with pending cuts, and of those that another copy blocks."""
    t, b = tables.replica, tables.backend
    yield select(b.c.instance, func.count().label("backends")).group_by(b.c.instance)
    is_behind = t.c.desired > t.c.acked
    counts = select(t.c.instance, t.c.backend, func.count().label("behind")).where(is_behind)
    pending = counts.group_by(t.c.instance, t.c.backend).subquery()
    behind = select(
        pending.c.instance,
        func.count().label("behind_backends"),
        (func.count() - func.count(b.c.pulled_at)).label("unheard_backends"),
        func.min(b.c.pulled_at).label("pulled_since"),
        func.sum(pending.c.behind).label("behind"),
    )
    with_pulls = pending.outerjoin(b, and_(b.c.instance == pending.c.instance, b.c.name == pending.c.backend))
    yield behind.select_from(with_pulls).group_by(pending.c.instance)
    # A grant is permanent, so copies whose cut is granted are not blocked.
    ungranted = and_(is_behind, t.c.granted < t.c.desired, t.c.dropped.is_(False))
    waiting = select(t.c.instance, t.c.tablet, t.c.desired).where(ungranted).limit(MOST_BLOCKED).subquery()
    copy = t.alias("copy")
    same_tablet = and_(
        copy.c.instance == waiting.c.instance, copy.c.tablet == waiting.c.tablet, copy.c.dropped.is_(False)
    )
    lowest = select(func.coalesce(func.min(needed_version(copy, now)), 0)).where(same_tablet).scalar_subquery()
    blocked = select(waiting.c.instance, func.count().label("blocked")).where(lowest <= waiting.c.desired)
    yield blocked.group_by(waiting.c.instance)


def _health(tables: Tables, now: int) -> Iterator[Select[Any]]:
    """Yield the queries of unhealthy copies, of stale ones, and of the others that do not work as they should.

    Those are FULL_COPY_ONLY, or cross, or a backend reported a problem for them.
    """
    t = tables.replica
    not_dropped = t.c.dropped.is_(False)
    unhealthy = or_(t.c.bad_since.is_not(None), t.c.gap_since.is_not(None))
    # A bad copy counts as bad only: it cannot be read, so its gaps do not matter.
    gap = and_(t.c.bad_since.is_(None), t.c.gap_since.is_not(None))
    marked = and_(gap, t.c.failed >= 0)
    unwell = select(
        t.c.instance,
        func.count(t.c.bad_since).label("unwell.bad"),
        func.count().filter(gap).label("unwell.gap"),
        func.count().filter(marked).label("unwell.missing"),
        func.min(t.c.bad_since).label("bad_since"),
        func.min(t.c.gap_since).filter(marked).label("missing_since"),
    )
    yield unwell.where(unhealthy, not_dropped).group_by(t.c.instance)
    is_stale = and_(t.c.fresh_until <= now, t.c.full_copy == "", not_dropped)
    yield select(t.c.instance, func.count().label("unwell.stale")).where(is_stale).group_by(t.c.instance)
    selected = or_(t.c.full_copy != "", t.c.problem != "", t.c.crossing)
    known = {outcome: t.c.problem.like(f"{outcome}%") for outcome in OUTCOMES if outcome != OTHER}
    problems = select(
        t.c.instance,
        func.count().filter(not_dropped, t.c.full_copy == BY_LIMIT).label("unwell.full_copy_by_limit"),
        func.count().filter(not_dropped, t.c.full_copy.not_in(("", BY_LIMIT))).label("unwell.full_copy_by_person"),
        func.count().filter(not_dropped, t.c.crossing).label("unwell.crossing"),
        *(func.count().filter(condition).label(f"problems.{outcome}") for outcome, condition in known.items()),
        func.count().filter(t.c.problem != "", not_(or_(*known.values()))).label(f"problems.{OTHER}"),
    )
    yield problems.where(selected).group_by(t.c.instance)
