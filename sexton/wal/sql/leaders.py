"""Store what the leaders of regions send: reports, and openings, whose entries stay pinned until they are read.

A heartbeat is two statements and locks no topic: a report only raises needs.
"""

import uuid
from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, Text, and_, delete, func, insert, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import as_rows
from sexton.wal.model import MAX_REPLAYS, Pin, Region, WalSettings
from sexton.wal.policy import HeartbeatReceipt, LeaderReport, OpenRegionOrder
from sexton.wal.port import PinEnded, TooManyReplays, of_another_node
from sexton.wal.regions import decide_opening, is_plausible, merge, reported_need
from sexton.wal.sql.store import deciding, read_topic

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
        about a region that is not mapped in a topic of the instance, or has impossible numbers. Topics of other
        instances are unknown to a node.

        ``reports``: one for each region and topic. ``url``: where the node takes requests to flush; empty: the address
        that it reported before.

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
            if merged:
                types = {name: r.c[name].type for name in (*KEYS, *MERGED)}
                changed = [{name: getattr(region, name) for name in types} for region in merged.values()]
                new = as_rows(changed, **types)
                same_region = and_(r.c.topic == new.c.topic, r.c.region == new.c.region)
                values = {name: new.c[name] for name in MERGED}
                c.execute(update(r).where(same_region).values(**values, node=node, reported_at=now))
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


class ReplayStore:
    """Opens regions, and renews and releases their pins."""

    def __init__(self, db: Database, settings: WalSettings) -> None:
        self._db, self._settings = db, settings

    def open(self, order: OpenRegionOrder) -> Pin:
        """Pin the entries that a region must read, in the transaction that verifies that they all exist.

        From then on only reports of the leader of this epoch count for the region.

        Raises:
            UnknownTopic, UnknownRegion: no map names the region in this topic.
            OldEpoch: a newer leader is known, or the manifest names less than was reported in this epoch.
            RegionOfAnotherNode: another node leads it.
            ReplayRefused: entries that it needs are deleted, or it is unknown which entries it needs.
            TooManyReplays: the node has ``MAX_REPLAYS`` pins on the region.
        """
        db, r, t = self._db, self._db.t.wal_region, self._db.t.wal_pin
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), read_topic(db, c, order.topic)
            region = self._region(c, order.topic, order.region, lock=True)
            opening = decide_opening(region, topic, order)
            same_region = and_(r.c.topic == order.topic, r.c.region == order.region)
            c.execute(update(r).where(same_region).values(**opening.columns))
            pin = Pin(
                id=uuid.uuid4().hex,
                topic=order.topic,
                region=order.region,
                start=opening.start,
                node=order.node,
                kafka_id=topic.kafka_id,
                log_end=topic.log_end or 0,
                opened_at=now,
                expires_at=now + self._settings.replay_pin_ttl_seconds * 1000,
            )
            c.execute(delete(t).where(t.c.topic == order.topic, t.c.expires_at <= now))  # pins that have expired
            of_node = and_(t.c.topic == order.topic, t.c.region == order.region, t.c.node == order.node)
            count, next_end = c.execute(select(func.count(), func.min(t.c.expires_at)).where(of_node)).one()
            if count >= MAX_REPLAYS:
                raise TooManyReplays(
                    f"node {order.node} opens region {order.region} with {count} replays already: end those that are "
                    f"over (DELETE /v1/topics/{order.topic}/replays/ID), or wait until one expires, for at most "
                    f"{(next_end - now) // 1000 + 1:,} s"
                )
            c.execute(insert(t).values(**pin.model_dump(exclude={"lasts_ms"})))
            return pin.model_copy(update={"lasts_ms": pin.expires_at - now})

    def find(self, id_: str) -> Pin | None:
        """Return a pin, expired or not; None if it was released."""
        t = self._db.t.wal_pin
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == id_)).first()
        return None if row is None else Pin(**row._mapping)

    def renew(self, id_: str) -> Pin:
        """Extend a pin by its time to live, up to its maximum age.

        Raises:
            PinEnded: it was released, has expired, or has reached its maximum age.
            RegionOfAnotherNode: another node leads the region now.
        """
        ended = PinEnded(f"replay {id_} has ended; open the region again")
        pin_before_lock = self.find(id_)
        if pin_before_lock is None:
            raise ended
        t = self._db.t.wal_pin
        # Lock the topic: a purge must not count the pin as expired while it is renewed.
        with deciding(self._db, pin_before_lock.topic) as c:
            now = self._db.now(c)
            row = c.execute(select(t).where(t.c.id == id_, t.c.expires_at > now)).first()
            if row is None:
                raise ended
            pin = Pin(**row._mapping)
            # Read the region without a lock: a renewal must not wait for heartbeats, which lock rows of regions. Maps,
            # openings and resets change the leader under the topic's lock. Only the first report of a region that has
            # no leader sets one without it: a pin of the node before may then be renewed once more, which retains
            # entries for longer and deletes none; the next renewal is refused.
            region = self._region(c, pin.topic, pin.region, lock=False)
            if region is not None and region.leader not in ("", pin.node):
                raise of_another_node(region, pin.node)
            oldest = pin.opened_at + self._settings.replay_pin_max_seconds * 1000
            expires_at = min(now + self._settings.replay_pin_ttl_seconds * 1000, oldest)
            if expires_at <= now:
                raise PinEnded(
                    f"replay {id_} has reached its maximum age of {self._settings.replay_pin_max_seconds:,} s; "
                    "open the region again"
                )
            c.execute(update(t).where(t.c.id == id_).values(expires_at=expires_at))
            return pin.model_copy(update={"expires_at": expires_at, "lasts_ms": expires_at - now})

    def release(self, id_: str) -> None:
        """End a pin; repeatable."""
        t = self._db.t.wal_pin
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.id == id_))

    def _region(self, c: Connection, topic: str, name: str, *, lock: bool) -> Region | None:
        """Return a region; None: no map has named it. ``lock``: block reports for it until the transaction ends."""
        r = self._db.t.wal_region
        query = select(r).where(r.c.topic == topic, r.c.region == name)
        row = c.execute(query.with_for_update() if lock else query).first()
        return None if row is None else Region(**row._mapping)
