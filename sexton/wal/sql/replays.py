"""Open regions: decide where each begins to read, and pin the entries until it has read them."""

import uuid

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from sexton.database.engine import Database
from sexton.wal.model import MAX_REPLAYS, Pin, Region, Topic, WalSettings
from sexton.wal.orders import OpenRegionOrder
from sexton.wal.port import PinEnded, TooManyReplays, of_another_node
from sexton.wal.regions import decide_opening
from sexton.wal.sql.rows import deciding, read_topic


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
        db, r = self._db, self._db.t.wal_region
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), read_topic(db, c, order.topic)
            region = self._region(c, order.topic, order.region, lock=True)
            opening = decide_opening(region, topic, order)
            same_region = and_(r.c.topic == order.topic, r.c.region == order.region)
            c.execute(update(r).where(same_region).values(**opening.columns))
            return self._insert_pin(c, topic, order, opening.start, now)

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
            oldest = pin.opened_at + self._settings.pin_max_seconds * 1000
            expires_at = min(now + self._settings.pin_ttl_seconds * 1000, oldest)
            if expires_at <= now:
                raise PinEnded(
                    f"replay {id_} has reached its maximum age of {self._settings.pin_max_seconds:,} s; open the "
                    "region again"
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

    def _insert_pin(self, c: Connection, topic: Topic, order: OpenRegionOrder, start: int, now: int) -> Pin:
        """Store a new pin, and delete the topic's expired ones."""
        t = self._db.t.wal_pin
        pin = Pin(
            id=uuid.uuid4().hex,
            topic=order.topic,
            region=order.region,
            start=start,
            node=order.node,
            kafka_id=topic.kafka_id,
            log_end=topic.log_end or 0,
            opened_at=now,
            expires_at=now + self._settings.pin_ttl_seconds * 1000,
        )
        c.execute(delete(t).where(t.c.topic == order.topic, t.c.expires_at <= now))
        of_node = and_(t.c.topic == order.topic, t.c.region == order.region, t.c.node == order.node)
        count, next_end = c.execute(select(func.count(), func.min(t.c.expires_at)).where(of_node)).one()
        if count >= MAX_REPLAYS:
            raise TooManyReplays(
                f"node {order.node} opens region {order.region} with {count} replays already: end those that are over "
                f"(DELETE /v1/topics/{order.topic}/replays/ID), or wait until one expires, for at most "
                f"{(next_end - now) // 1000 + 1:,} s"
            )
        c.execute(insert(t).values(**pin.model_dump(exclude={"lasts_ms"})))
        return pin.model_copy(update={"lasts_ms": pin.expires_at - now})
