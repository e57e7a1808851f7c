"""Store the owner's map of a topic, a complete set of regions each time. Nothing else adds or releases a region."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, update

from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.kernel.errors import BadInput
from sexton.wal.mapping import remapped
from sexton.wal.model import MAX_EPOCH, MAX_GENERATION_STEP, Region, RegionState, Topic
from sexton.wal.orders import MapOrder, RegionMapping, RegionMove
from sexton.wal.port import EpochTooHigh, OldMap
from sexton.wal.sql.rows import check_instance, deciding, ensure_topic, read_regions, read_topic, read_topics


class MapStore:
    """Stores maps."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, order: MapOrder) -> Topic:
        """Store a map; sending the same map again only renews its age. A region is mapped before its first append.

        Raises:
            TopicOfAnotherInstance: another instance has mapped or enabled the topic.
            OldMap: a newer map is known, or another map of this generation.
            EpochTooHigh: a region's epoch or the generation is above the ceiling, or raises the generation too far.
            BadInput: a region appears twice, or begins below the floor: read the topic's end again, and map it there.
        """
        _refuse_duplicates(order)
        _refuse_high_epochs(order)
        db, t = self._db, self._db.t.wal_topic
        digest = _digest(order)
        with db.write() as c:
            if order.topic not in read_topics(db, c, [order.topic]):
                _refuse_far_ahead(Topic(name=order.topic), order)  # a refused map takes no name
            ensure_topic(db, c, order.topic, order.instance)
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), read_topic(db, c, order.topic)
            check_instance(topic, order.instance)
            _refuse_older(topic, order, digest)
            _refuse_far_ahead(topic, order)
            columns: dict[str, Any] = {"generation": order.generation, "mapped_at": now, "map_digest": digest}
            if not _is_repeated(topic, order):
                stored = {row.region: row for row in read_regions(db, c, [order.topic], lock=True)[order.topic]}
                changed = remapped(topic, stored, order, now)
                self._store_regions(c, changed)
                regions = stored | {region.region: region for region in changed}
                if any(region.state is not RegionState.GONE for region in regions.values()):
                    columns["emptied_at"] = None
            c.execute(update(t).where(t.c.name == order.topic).values(**columns))
            return read_topic(db, c, order.topic)

    def _store_regions(self, c: Connection, regions: Sequence[Region]) -> None:
        if not regions:
            return
        r = self._db.t.wal_region
        insert = upsert(self._db, r)
        columns = {column.name: insert.excluded[column.name] for column in r.c if not column.primary_key}
        rows = [region.model_dump() for region in regions]
        c.execute(insert.on_conflict_do_update(index_elements=[r.c.topic, r.c.region], set_=columns), rows)


def _refuse_duplicates(order: MapOrder) -> None:
    names = [led.region for led in _led_regions(order)] + [drop.region for drop in order.dropped]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise BadInput(
            f"the map of topic {order.topic}: region {duplicate} appears more than once (in regions, moved or dropped)"
        )


def _refuse_high_epochs(order: MapOrder) -> None:
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


def _digest(order: MapOrder) -> str:
    """Return a digest that is the same for a repeated map: in any order, with less time left to undo a drop."""
    mapped = sorted((m.region, m.epoch, -1 if m.first is None else m.first, m.node) for m in order.regions)
    moved = sorted((m.region, m.epoch, m.node) for m in order.moved)
    dropped = sorted(drop.region for drop in order.dropped)
    return hashlib.sha256(json.dumps([mapped, moved, dropped]).encode()).hexdigest()
