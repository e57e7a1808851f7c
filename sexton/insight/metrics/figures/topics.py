"""Read the figures of topics, in a few statements for any number of topics."""

from sqlalchemy import Connection, and_, case, false, func, or_, select

from sexton.database.engine import Database
from sexton.insight.metrics.model import WalFigures
from sexton.wal.model import BlockReason, RegionState, WalSettings
from sexton.wal.sql.rows import needs_deleted_entries, retains


def figures(db: Database, c: Connection, now: int, settings: WalSettings) -> WalFigures:
    """Return the figures as the transaction sees them; ``settings``: how far behind a region is asked to flush."""
    t, r, p = db.t.wal_topic, db.t.wal_region, db.t.wal_pin
    entries = func.coalesce(t.c.log_end, 0) - func.coalesce(t.c.log_start, 0)
    last_success = case((t.c.quarantined == "", t.c.ok_at), else_=None)
    row = c.execute(
        select(
            func.count().label("topics"),
            func.coalesce(func.sum(case((t.c.quarantined != "", 1), else_=0)), 0).label("quarantined"),
            func.coalesce(func.sum(case((t.c.fault != "", 1), else_=0)), 0).label("faulty"),
            func.min(last_success).label("ok_since"),
            func.coalesce(func.sum(entries), 0).label("entries"),
            func.coalesce(func.sum(entries * t.c.entry_bytes), 0).label("bytes"),
            func.coalesce(func.sum(t.c.freed), 0).label("freed"),
        ).where(t.c.enabled)
    ).one()
    active_pins = select(func.count().label("n"), func.min(p.c.opened_at).label("oldest")).where(p.c.expires_at > now)
    replays = c.execute(active_pins).one()
    blocked: dict[str, int] = {str(why): 0 for why in BlockReason if why is not BlockReason.NOT_ENABLED}
    blocked_since: list[int] = []
    for blocks in c.execute(select(t.c.blocked).where(t.c.enabled)).scalars():
        for why, since in blocks.items():
            blocked[why] = blocked.get(why, 0) + 1
            if why != BlockReason.STOPPED:
                blocked_since.append(since)
    return WalFigures(
        **{**row._mapping, "bytes": int(row.bytes)},
        blocked=blocked,
        blocked_since=min(blocked_since, default=None),
        lost_regions=c.execute(
            select(func.count()).select_from(t.join(r, needs_deleted_entries(db))).where(t.c.enabled)
        ).scalar_one(),
        lagging_regions=_count_lagging(db, c, settings),
        replays=replays.n,
        oldest_replay=replays.oldest,
    )


def _count_lagging(db: Database, c: Connection, settings: WalSettings) -> int:
    """Return how many regions ``policy.regions_to_flush`` would name."""
    t, r = db.t.wal_topic, db.t.wal_region
    behind = t.c.log_end - r.c.keep_from
    has_passed = and_(r.c.state == RegionState.MOVED, r.c.keep_from >= r.c.until)  # NULL where it has no end
    lagging = (
        select(func.count())
        .select_from(t.join(r, t.c.name == r.c.topic))
        .where(t.c.enabled, t.c.quarantined == "", retains(db), r.c.state != RegionState.DROPPED)
        .where(func.coalesce(has_passed, false()).is_(False))
        .where(or_(behind > settings.flush_entries, behind * t.c.entry_bytes > settings.flush_bytes))
    )
    return int(c.execute(lagging).scalar_one())
