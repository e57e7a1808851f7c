"""Which regions a topic has: the owner's map, a whole set each time. Nobody else adds a region or lets one go."""

import hashlib
import json
from typing import Any

from sqlalchemy import update

from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.kernel.errors import BadInput
from sexton.wal import policy
from sexton.wal.model import MapOrder, RegionState, Topic
from sexton.wal.port import OldMap
from sexton.wal.sql.rows import deciding, known, make, regions


class MapStore:
    """Takes maps."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, order: MapOrder) -> Topic:
        """Store a map; the same again only says that it is fresh. A region is mapped before its first append.

        Raises:
            OldMap: a newer one is known, or another one of this generation.
            BadInput: a region is named twice, or begins below the floor: read the topic's end again, and map it so.
        """
        names = [r.region for r in order.regions] + list(order.moved) + [d.region for d in order.dropped]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise BadInput(f"the map of topic {order.topic} names region {twice} twice: as it is now, or as it went")
        db, t, r = self._db, self._db.t.wal_topic, self._db.t.wal_region
        digest = _digest(order)
        with db.write() as c:
            make(db, c, order.topic)
        with deciding(db, order.topic) as c:
            now, topic = db.now(c), known(db, c, order.topic)
            if topic.generation is not None and order.generation < topic.generation:
                said = f"{order.generation} is older than {topic.generation}, which is known"
                raise OldMap(f"topic {order.topic}: map {said}")
            again = topic.generation == order.generation and topic.map_digest != ""  # else it is to be told anew
            if again and digest != topic.map_digest:
                raise OldMap(f"topic {order.topic}: map {order.generation} was another one before; number it anew")
            values: dict[str, Any] = {"generation": order.generation, "mapped_at": now, "map_digest": digest}
            if not again:
                there = {its.region: its for its in regions(db, c, [order.topic], lock=True)[order.topic]}
                changed = policy.remapped(topic, there, order, now)
                if changed:
                    new = upsert(db, r)
                    columns = {c.name: new.excluded[c.name] for c in r.c if not c.primary_key}
                    rows = [its.model_dump() for its in changed]
                    c.execute(new.on_conflict_do_update(index_elements=[r.c.topic, r.c.region], set_=columns), rows)
                if any(its.state is not RegionState.GONE for its in (there | {i.region: i for i in changed}).values()):
                    values["emptied_at"] = None
            c.execute(update(t).where(t.c.name == order.topic).values(**values))
            return known(db, c, order.topic)


def _digest(order: MapOrder) -> str:
    """Return what is the same for a map that is sent again: in any order, with less time left of a drop."""
    its = [sorted((i.region, i.epoch, -1 if i.first is None else i.first) for i in order.regions), sorted(order.moved)]
    its.append(sorted(i.region for i in order.dropped))
    return hashlib.sha256(json.dumps(its).encode()).hexdigest()
