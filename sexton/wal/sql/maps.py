"""Store the owner's map of a topic, a complete set of regions each time, and operators' resets of topics and regions.

Only a map adds regions. The call log records who ordered a reset and why (``sexton log``).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, case, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.kernel.errors import BadInput
from sexton.wal.model import (
    MAX_EPOCH,
    MAX_GENERATION_STEP,
    MAX_TOPIC_REGIONS,
    KeepFromSource,
    Region,
    RegionState,
    Topic,
    WalSettings,
)
from sexton.wal.policy import MapOrder, RegionMapping, RegionMove
from sexton.wal.port import EpochTooHigh, OldMap, TooManyRegions, UnknownRegion
from sexton.wal.regions import FORGET_REPORTS, remapped, starts_over
from sexton.wal.sql.store import (
    check_instance,
    deciding,
    ensure_topic,
    lock_regions,
    read_regions,
    read_topic,
    read_topics,
    retains,
)

_RELEASE = (
    "name those that left in dropped or moved; they count until a purge has released them (sexton wal explain TOPIC "
    "shows them)"
)
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


class MapStore:
    """Stores maps."""

    def __init__(self, db: Database, settings: WalSettings) -> None:
        self._db, self._max_instance_regions = db, settings.max_instance_regions

    def put(self, order: MapOrder) -> Topic:
        """Store a map; sending the same map again only renews its age. A region is mapped before its first append.

        Raises:
            TopicOfAnotherInstance: another instance has mapped or enabled the topic.
            OldMap: a newer map is known, or another map of this generation.
            EpochTooHigh: a region's epoch or the generation is above the ceiling, or raises the generation too far.
            BadInput: a region appears twice, or begins below the floor: read the topic's end again, and map it there.
            TooManyRegions: it adds regions beyond those that a topic or an instance may have, or a topic too many.
                Maps that arrive at the same time may together exceed the number of an instance, once.
        """
        _refuse_impossible(order)
        db, t, r = self._db, self._db.t.wal_topic, self._db.t.wal_region
        # The same for a repeated map: in any order, with less time left to undo a drop.
        mapped = sorted((m.region, m.epoch, -1 if m.first is None else m.first, m.node) for m in order.regions)
        moved = sorted((m.region, m.epoch, m.node) for m in order.moved)
        dropped = sorted(drop.region for drop in order.dropped)
        digest = hashlib.sha256(json.dumps([mapped, moved, dropped]).encode()).hexdigest()
        with db.write() as c:
            if order.topic not in read_topics(db, c, [order.topic]):
                _refuse_far_ahead(Topic(name=order.topic), order)  # a refused map takes no name
                topics = c.execute(select(func.count()).where(t.c.instance == order.instance)).scalar_one()
                if topics >= self._max_instance_regions:
                    raise TooManyRegions(
                        f"instance {order.instance} has {topics:,} topics, empty ones included, and may have no more "
                        f"than regions, {self._max_instance_regions:,} (wal.max_instance_regions)"
                    )
            ensure_topic(db, c, order.topic, order.instance)
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), read_topic(db, c, order.topic)
            check_instance(topic, order.instance)
            _refuse_older(topic, order, digest)
            _refuse_far_ahead(topic, order)
            columns: dict[str, Any] = {"generation": order.generation, "mapped_at": now, "map_digest": digest}
            if not _is_repeated(topic, order):
                if starts_over(topic):
                    of_topic = r.c.topic == order.topic
                    lock_regions(db, c, of_topic)
                    c.execute(update(r).where(of_topic).values(**FORGET_REPORTS))  # also those that it does not name
                is_named = in_list(r.c.region, [named.region for named in (*_led_regions(order), *order.dropped)])
                locked = read_regions(db, c, [order.topic], is_named, lock=True)[order.topic]  # it changes no others
                stored = {region.region: region for region in locked}
                changed = remapped(topic, stored, order, now)
                # Those that are new, or return after they were GONE.
                added = sum(r.region not in stored or stored[r.region].state is RegionState.GONE for r in changed)
                if self._count_regions(c, topic, added):
                    columns["emptied_at"] = None
                self._store_regions(c, changed)
            c.execute(update(t).where(t.c.name == order.topic).values(**columns))
            return read_topic(db, c, order.topic)

    def _count_regions(self, c: Connection, topic: Topic, added: int) -> int:
        """Return how many regions of a topic retain entries after a map that adds some; raises ``TooManyRegions``."""
        r, t = self._db.t.wal_region, self._db.t.wal_topic
        regions = select(func.count()).select_from(r).where(retains(self._db))
        of_topic = c.execute(regions.where(r.c.topic == topic.name)).scalar_one() + added
        if not added:
            return of_topic
        if of_topic > MAX_TOPIC_REGIONS:
            raise TooManyRegions(
                f"topic {topic.name} would have {of_topic:,} regions that are mapped or still retain entries, and may "
                f"have {MAX_TOPIC_REGIONS:,}: {_RELEASE}"
            )
        names = select(t.c.name).where(t.c.instance == topic.instance)
        of_instance = c.execute(regions.where(r.c.topic.in_(names))).scalar_one() + added
        if of_instance > self._max_instance_regions:
            raise TooManyRegions(
                f"the topics of instance {topic.instance} would have {of_instance:,} regions that are mapped or still "
                f"retain entries, and may have {self._max_instance_regions:,} (wal.max_instance_regions): {_RELEASE}"
            )
        return of_topic

    def _store_regions(self, c: Connection, regions: Sequence[Region]) -> None:
        if not regions:
            return
        r = self._db.t.wal_region
        types = {column.name: column.type for column in r.c}
        # In one statement: the topic is locked meanwhile.
        rows = as_rows((region.model_dump() for region in regions), **types)
        insert = upsert(r).from_select(list(types), select(*(rows.c[name] for name in types)))
        columns = {column.name: insert.excluded[column.name] for column in r.c if not column.primary_key}
        c.execute(insert.on_conflict_do_update(index_elements=[r.c.topic, r.c.region], set_=columns))


class ResetStore:
    """Resets topics and regions."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def reset_region(self, topic: str, region: str, to: int | None = None, epoch: int | None = None) -> Region:
        """Set the first entry that a region needs, even if entries are lost: it opens there, and LOSS ends.

        ``to``: the first entry that it needs; None: the topic's first entry. ``epoch``: in which it opens, above each
        that its nodes have used; None: the next one.

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
            if known_topic.log_end is None or known_topic.mapped_at is None:
                raise BadInput(
                    f"topic {topic} was not seen yet, or not since a reset: let its owner send its map, run: sexton "
                    f"wal explain {topic}; then reset region {region} to the entry from which it reads"
                )
            first, end = max(known_topic.floor or 0, known_topic.log_start or 0), known_topic.log_end
            keep_from = first if to is None else to
            if not first <= keep_from <= end:
                raise BadInput(f"{keep_from} is not in topic {topic}: it has {first} to {end}, as last seen")
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


def _refuse_impossible(order: MapOrder) -> None:
    """Refuse a map that names a region twice, or an epoch above the ceiling."""
    counts = Counter(named.region for named in (*_led_regions(order), *order.dropped))
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise BadInput(
            f"the map of topic {order.topic}: region {duplicate} appears more than once (in regions, moved or dropped)"
        )
    for led in _led_regions(order):
        if led.epoch > MAX_EPOCH:
            raise EpochTooHigh(
                f"region {led.region} of topic {order.topic}: epoch {led.epoch} is above the last possible one, "
                f"{MAX_EPOCH}; count leaderships, one by one"
            )


def _led_regions(order: MapOrder) -> list[RegionMapping | RegionMove]:
    return [*order.regions, *order.moved]


def _refuse_older(topic: Topic, order: MapOrder, digest: str) -> None:
    if topic.generation is not None and order.generation < topic.generation:
        raise OldMap(
            f"topic {order.topic}: map generation {order.generation} is older than {topic.generation}, which is known"
            f"{_way_out(topic, topic.generation)}"
        )
    if _is_repeated(topic, order) and digest != topic.map_digest:
        raise OldMap(
            f"topic {order.topic}: another map of generation {order.generation} is known; send this one with a higher "
            "generation"
        )


def _refuse_far_ahead(topic: Topic, order: MapOrder) -> None:
    """Refuse a generation above the ceiling, or too far above the known one; a reset forgets which one is known."""
    about, known = f"topic {order.topic}: map generation {order.generation}", topic.generation
    if known is None or not topic.map_digest:
        if order.generation > MAX_EPOCH:
            raise EpochTooHigh(f"{about} is above the last possible one, {MAX_EPOCH}; count maps, one by one")
    elif order.generation > min(known + MAX_GENERATION_STEP, MAX_EPOCH):
        raise EpochTooHigh(
            f"{about} is too far above generation {known}, which is known: a map raises it by {MAX_GENERATION_STEP:,} "
            f"at most, and to {MAX_EPOCH} at most; send generation {known + 1}{_way_out(topic, known)}"
        )


def _way_out(topic: Topic, known: int) -> str:
    """Return what an operator does about a known generation that leaves too few higher ones."""
    if known + MAX_GENERATION_STEP <= MAX_EPOCH:
        return ""
    return f"; few higher ones are left: an operator starts them again with: sexton wal reset {topic.name}"


def _is_repeated(topic: Topic, order: MapOrder) -> bool:
    """Return whether a map of this generation is known; after a reset or a restore, every map counts as new."""
    return topic.generation == order.generation and topic.map_digest != ""
