"""Opening a region: where it begins to read, and a pin that keeps it until it has read."""

import uuid

from sqlalchemy import delete, insert, select, update

from sexton.database.engine import Database
from sexton.wal import policy
from sexton.wal.model import KeepFromSource, OpenRegionOrder, Pin, Region, RegionState, WalSettings
from sexton.wal.port import OldEpoch, PinEnded, ReplayRefused, UnknownRegion
from sexton.wal.sql.rows import deciding, known


class ReplayStore:
    """Opens regions."""

    def __init__(self, db: Database, terms: WalSettings) -> None:
        self._db, self._terms = db, terms

    def open(self, order: OpenRegionOrder) -> Pin:
        """Pin what a region must read, in the transaction that looks whether it is all there.

        From then on nobody but the leader of this epoch reports for the region.

        Raises:
            UnknownTopic, UnknownRegion: nobody has mapped it there.
            OldEpoch: a newer leader is known; or the manifest knows less than was reported in this very epoch.
            ReplayRefused: what it needs is gone, or nobody knows what it needs.
        """
        db, t, r = self._db, self._db.t.wal_pin, self._db.t.wal_region
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), known(db, c, order.topic)
            its = (r.c.topic == order.topic) & (r.c.region == order.region)
            row = c.execute(select(r).where(its).with_for_update()).first()
            if row is None or row.state == RegionState.GONE:
                raise UnknownRegion(order.topic, order.region)
            region = Region(**row._mapping)
            if order.epoch < region.epoch:
                raise OldEpoch(f"region {order.region} has a leader of epoch {region.epoch}; {order.epoch} is over")
            if region.state is RegionState.DROPPED:
                raise ReplayRefused(f"region {order.region} is dropped; map it to topic {order.topic} again first")
            if topic.quarantined:
                raise ReplayRefused(f"topic {order.topic} is quarantined: {topic.quarantined}")
            start = policy.start(region, order.flushed, topic.log_end)
            if start is None:
                why = (
                    "after a reset its manifest says nothing"
                    if region.source is KeepFromSource.RESET
                    else "it has no manifest"
                )
                raise ReplayRefused(
                    f"nobody knows what region {order.region} needs: {why}, and it has not reported; where it shall "
                    f"begin an operator says: sexton wal reset {order.topic} --region {order.region} --to ENTRY"
                )
            if gone := policy.missing(topic, order.region, start):
                ours = "its flushed files are older than what it told"
                theirs = "the log itself has deleted them, by its retention perhaps: Sexton went no further than "
                theirs += f"{topic.floor}" if topic.floor else "nothing"
                raise ReplayRefused(
                    f"region {order.region} needs entries {gone} of topic {order.topic}, which are gone; "
                    + (ours if start < (topic.floor or 0) else theirs),
                    gone,
                )
            values, waits = {"epoch": order.epoch, "node": order.node}, policy.WAITS_NOT
            if region.keep_from is None or start < region.keep_from:
                if region.keep_from is not None and order.epoch == region.epoch:
                    raise OldEpoch(
                        f"the manifest of region {order.region} knows less than was reported in epoch {order.epoch}; "
                        "open it with a new one, so that what is on its way from the old one is ignored"
                    )
                # What it reads again is in no file: it is needed until it is flushed. One above the end that we know
                # may be a newer end, or wrong: it counts, as a report, when we see an end as high.
                knew = policy.knows(order.flushed)
                if start <= (topic.log_end or 0):
                    values |= {"keep_from": start, "flushed": knew, "marks": sum(knew), "source": KeepFromSource.OPENED}
                else:
                    waits = {"waits": start, "waits_flushed": knew, "waits_marks": sum(knew)}
            c.execute(update(r).where(its).values(**values, **waits))
            pin = Pin(
                id=uuid.uuid4().hex,
                topic=order.topic,
                region=order.region,
                start=start,
                node=order.node,
                kafka_id=topic.kafka_id,
                log_end=topic.log_end or 0,
                opened_at=now,
                expires_at=now + self._terms.pin_ttl_seconds * 1000,
            )
            c.execute(delete(t).where(t.c.topic == order.topic, t.c.expires_at <= now))
            c.execute(insert(t).values(**pin.model_dump(exclude={"lasts_ms"})))
            return pin.model_copy(update={"lasts_ms": pin.expires_at - now})

    def find(self, id_: str) -> Pin | None:
        """Return a pin, whether its time is over or not; None where it was released."""
        t = self._db.t.wal_pin
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == id_)).first()
        return None if row is None else Pin(**row._mapping)

    def renew(self, id_: str) -> Pin:
        """Keep a pin for as long again, up to its greatest age. Raises ``PinEnded``."""
        t, ended = self._db.t.wal_pin, f"replay {id_} has ended; open the region again"
        found = self.find(id_)
        if found is None:
            raise PinEnded(ended)
        # Else a purge could count it as ended in the moment in which it is renewed.
        with deciding(self._db, found.topic) as c:
            now = self._db.now(c)
            row = c.execute(select(t).where(t.c.id == id_, t.c.expires_at > now)).first()
            if row is None:
                raise PinEnded(ended)
            pin = Pin(**row._mapping)
            until = min(now + self._terms.pin_ttl_seconds * 1000, pin.opened_at + self._terms.pin_max_seconds * 1000)
            if until <= now:
                raise PinEnded(f"replay {id_} has lasted for {self._terms.pin_max_seconds:,} s, and may not any longer")
            c.execute(update(t).where(t.c.id == id_).values(expires_at=until))
            return pin.model_copy(update={"expires_at": until, "lasts_ms": until - now})

    def release(self, id_: str) -> None:
        """End a pin; repeatable."""
        t = self._db.t.wal_pin
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.id == id_))
