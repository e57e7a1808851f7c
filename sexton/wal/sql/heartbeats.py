"""Store the reports of nodes on their regions in two statements. No topic is locked: a report only raises needs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import as_rows
from sexton.wal.model import Region
from sexton.wal.orders import HeartbeatReceipt, LeaderReport
from sexton.wal.port import of_another_node
from sexton.wal.regions import is_plausible, merge, reported_need

KEYS = ("topic", "region")
MERGED = ("keep_from", "flushed", "source", "pending_keep_from", "pending_flushed")
"""The columns of a region that reports change, besides the node and the time."""
RegionKey = tuple[str, str]
"""Topic and region."""


class HeartbeatStore:
    """Stores heartbeats."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record_reports(
        self, instance: str, node: str, reports: Sequence[LeaderReport], url: str = ""
    ) -> HeartbeatReceipt:
        """Raise what regions need by the reports of their leaders; ``regions.merge`` documents the rule.

        A report is ignored if it is in another epoch than the map or an opening made known, comes from a follower, is
        about a region that is not mapped in a topic of the instance, or has impossible numbers.

        Args:
            instance: the node's; topics of other instances are unknown to it.
            node: who reports.
            reports: one for each region and topic.
            url: where the node takes requests to flush; empty: the address that it reported before.

        Raises:
            RegionOfAnotherNode: another node leads a reported region in this epoch; the other reports are stored.
        """
        t, r = self._db.t.wal_node, self._db.t.wal_region
        possible = [report for report in reports if report.leader and is_plausible(report)]
        with self._db.write() as c:
            now = self._db.now(c)
            if url:
                row = {"instance": instance, "name": node, "url": url, "seen_at": now}
                address = upsert(t).values(**row)
                c.execute(address.on_conflict_do_update(index_elements=[t.c.instance, t.c.name], set_=row))
            keys = {(report.topic, report.region) for report in possible}
            # ``Region.leader`` is the node, or there is none. Regions of other nodes are not locked: a node must not
            # delay the reports of another one. PostgreSQL verifies the leader again once it has the lock, so a region
            # that was given away meanwhile is not returned.
            may_report = or_(r.c.mapped_node == node, and_(r.c.mapped_node == "", r.c.node.in_(("", node))))
            stored = self._regions(c, instance, keys, may_report, lock=True)
            stored |= self._regions(c, instance, keys - stored.keys(), not_(may_report), lock=False)
            merged: dict[RegionKey, Region] = {}
            of_others: list[Region] = []
            counted = 0
            for report in possible:
                key = report.topic, report.region
                if key not in stored or report.epoch != stored[key][0].epoch:
                    continue
                known, log_end = stored[key]
                region = merged.get(key, known)
                if region.leader not in ("", node):
                    of_others.append(region)
                    continue
                merged[key] = merge(region, reported_need(report), log_end)
                counted += 1
            self._store_regions(c, merged.values(), {"node": node, "reported_at": now})
        if of_others:
            raise of_another_node(of_others[0], node)
        waiting = sum(region.pending_keep_from is not None for region in merged.values())
        return HeartbeatReceipt(taken=counted - waiting, waiting=waiting, ignored=len(reports) - counted)

    def _regions(
        self, c: Connection, instance: str, keys: Collection[RegionKey], condition: ColumnElement[bool], *, lock: bool
    ) -> dict[RegionKey, tuple[Region, int | None]]:
        """Return those of the regions that are the instance's and satisfy a condition, with the ends of their topics.

        An end is as it was last seen; None: never seen. ``lock``: none of them changes until the transaction ends.
        """
        if not keys:
            return {}
        r, t = self._db.t.wal_region, self._db.t.wal_topic
        named = as_rows([{"topic": topic, "region": region} for topic, region in keys], topic=Text(), region=Text())
        same_region = and_(r.c.topic == named.c.topic, r.c.region == named.c.region)
        query = select(r, t.c.log_end).select_from(named).join(r, same_region).join(t, t.c.name == r.c.topic)
        query = query.where(t.c.instance == instance, condition)
        if lock:  # in one order: two nodes that report the same rows would deadlock
            query = query.order_by(r.c.topic, r.c.region).with_for_update(of=r)
        columns = r.c.keys()
        regions = {}
        for *values, log_end in c.execute(query):
            # Not validated again: a heartbeat may have thousands of rows.
            region = Region.model_construct(**dict(zip(columns, values, strict=True)))
            regions[region.topic, region.region] = (region, log_end)
        return regions

    def _store_regions(self, c: Connection, regions: Collection[Region], columns: Mapping[str, Any]) -> None:
        """Store what reports changed; ``columns``: of every row."""
        if not regions:
            return
        r = self._db.t.wal_region
        types = {name: r.c[name].type for name in (*KEYS, *MERGED)}
        merged = as_rows([{name: getattr(region, name) for name in types} for region in regions], **types)
        same_region = and_(r.c.topic == merged.c.topic, r.c.region == merged.c.region)
        values = {name: merged.c[name] for name in MERGED}
        c.execute(update(r).where(same_region).values(**values, **columns))
