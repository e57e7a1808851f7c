"""Read the figures of topics, in one statement for any number of topics."""

from typing import Any

from sqlalchemy import JSON, Connection, and_, false, func, or_, select

from sexton.database.engine import Database, now_once
from sexton.insight.metrics.model import WalFigures
from sexton.wal.model import BlockReason, RegionState, WalSettings
from sexton.wal.sql.rows import needs_deleted_entries, retains


def figures(db: Database, c: Connection, settings: WalSettings) -> WalFigures:
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
