"""Apply an operator's resets of topics and regions, in the deciding transaction.

The call log records who ordered a reset and why (``sexton log``).
"""

from typing import Any

from sqlalchemy import case, select, update

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.wal.model import MAX_EPOCH, MAX_GENERATION_STEP, KeepFromSource, Region, RegionState, Topic
from sexton.wal.port import EpochTooHigh, UnknownRegion
from sexton.wal.regions import FORGET_REPORTS
from sexton.wal.sql.rows import deciding, lock_regions, read_topic

FORGET_PROGRESS: dict[str, Any] = FORGET_REPORTS | {"flushed": [], "source": KeepFromSource.RESET, "node": ""}
"""The columns of a region after a reset: its manifest proves nothing."""
NO_EPOCH = -1
"""The epoch of a region that had used up its epochs: no report counts until the owner's map or an opening names one."""
FORGET_TOPIC: dict[str, Any] = {
    "kafka_id": "",
    "floor": None,
    "log_start": None,
    "log_end": None,
    "quarantined": "",
    "blocked": {},
    "map_digest": "",
    "mapped_at": None,
    "emptied_at": None,
    "checked_at": None,
    "fault": "",
}


class ResetStore:
    """Resets topics and regions."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def reset_region(self, topic: str, region: str, to: int | None = None, epoch: int | None = None) -> Region:
        """Set the first entry that a region needs, even if entries are lost: it opens there, and LOSS ends.

        Args:
            topic: in which the region is mapped.
            region: its name.
            to: the first entry that it needs; None: the topic's first entry.
            epoch: in which it opens, above each that its nodes have used; None: the next one.

        Raises:
            EpochTooHigh: the epoch is above the ceiling.
            UnknownTopic, UnknownRegion: no map names the region in this topic.
            BadInput: the topic has no such entry, or its entries are not known.
        """
        if epoch is not None and not 0 <= epoch <= MAX_EPOCH:
            raise EpochTooHigh(f"{epoch} is no epoch of region {region}: use 0 to {MAX_EPOCH}")
        db, r = self._db, self._db.t.wal_region
        with deciding(db, topic) as c:
            known_topic = read_topic(db, c, topic)
            same_region = (r.c.topic == topic) & (r.c.region == region)
            row = c.execute(select(r).where(same_region).with_for_update()).first()
            if row is None or row.state == RegionState.GONE:
                raise UnknownRegion(topic, region)
            keep_from = _verified_entry(known_topic, region, to)
            # The operator overrides every earlier report and the manifest. Reports that are still on their way are of
            # an epoch that is over.
            if epoch is None:
                epoch = row.epoch + 1 if row.epoch < MAX_EPOCH else NO_EPOCH
            columns = FORGET_PROGRESS | {"keep_from": keep_from, "first": keep_from, "epoch": epoch}
            c.execute(update(r).where(same_region).values(**columns))
            return Region(**{**row._mapping, **columns})

    def reset_topic(self, name: str, instance: str | None = None) -> Topic:
        """Forget a topic, as if it had been created again; a quarantine ends. The topic stays enabled.

        ``instance``: to which it belongs from now on; None: as before.

        Nothing is purged until the owner has sent its map again and all regions have reported, in epochs above the
        known ones, so that no earlier report counts. Their manifests prove nothing: their ids may be those of a deleted
        topic. A region whose node does not return needs a reset of its own.

        Raises:
            UnknownTopic: no owner or operator has named the topic.
        """
        db, t, r, pin = self._db, self._db.t.wal_topic, self._db.t.wal_region, self._db.t.wal_pin
        topic_columns = FORGET_TOPIC | ({} if instance is None else {"instance": instance})
        with deciding(db, name) as c:
            if (read_topic(db, c, name).generation or 0) > MAX_EPOCH - MAX_GENERATION_STEP:
                topic_columns["generation"] = 0  # too few higher ones are left
            # Dropped and moved regions block deletion until the owner names them again: if the topic is the same, all
            # their entries still exist.
            holding = select(r.c.region).where(r.c.topic == name, r.c.state != RegionState.GONE).limit(1)
            if c.execute(holding).first() is None:
                topic_columns["emptied_at"] = db.now(c)
            c.execute(update(t).where(t.c.name == name).values(**topic_columns))
            next_epoch = case((r.c.epoch < MAX_EPOCH, r.c.epoch + 1), else_=NO_EPOCH)
            region_columns = FORGET_PROGRESS | {"first": 0, "epoch": next_epoch}
            lock_regions(db, c, r.c.topic == name)
            c.execute(update(r).where(r.c.topic == name).values(**region_columns))
            c.execute(pin.delete().where(pin.c.topic == name))
            return read_topic(db, c, name)

    def distrust_maps(self) -> int:
        """Distrust every map, because this database was restored from a backup; return how many topics need a new one.

        No topic is purged before its owner has sent its map again.
        """
        t = self._db.t.wal_topic
        with self._db.write() as c:
            c.execute(update(t).values(seq=t.c.seq + 1, map_digest="", mapped_at=None))
            return len(c.execute(select(t.c.name).where(t.c.enabled)).all())


def _verified_entry(topic: Topic, region: str, to: int | None) -> int:
    """Return the entry that a reset sets; raises ``BadInput`` unless the topic has it."""
    if topic.log_end is None or topic.mapped_at is None:
        raise BadInput(
            f"topic {topic.name} was not seen yet, or not since a reset: let its owner send its map, run: sexton wal "
            f"explain {topic.name}; then reset region {region} to the entry from which it reads"
        )
    first, end = max(topic.floor or 0, topic.log_start or 0), topic.log_end
    keep_from = first if to is None else to
    if not first <= keep_from <= end:
        raise BadInput(f"{keep_from} is not in topic {topic.name}: it has {first} to {end}, as last seen")
    return keep_from
