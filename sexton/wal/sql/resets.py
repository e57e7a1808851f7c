"""What an operator may say of topics when the world has changed behind them, in the deciding transaction.

Who said it and why is in the record of calls (``sexton log``).
"""

from typing import Any

from sqlalchemy import select, update

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.wal.model import KeepFromSource, Region, RegionState, Topic
from sexton.wal.policy import UNTOLD
from sexton.wal.port import UnknownRegion
from sexton.wal.sql.rows import deciding, known


class ResetStore:
    """Resets."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def region(self, topic: str, region: str, to: int | None = None) -> Region:
        """Say that a region needs nothing below an entry, whatever is lost: it opens there, and is no LOSS any more.

        Args:
            topic: where the region is mapped.
            region: which.
            to: the first entry that it needs; None: the first that is there.

        Raises:
            UnknownTopic, UnknownRegion: nobody has mapped it there.
            BadInput: there is no such entry, or nobody knows which there are.
        """
        db, r = self._db, self._db.t.wal_region
        with deciding(db, topic) as c:
            its = known(db, c, topic)
            of = (r.c.topic == topic) & (r.c.region == region)
            row = c.execute(select(r).where(of).with_for_update()).first()
            if row is None or row.state == RegionState.GONE:
                raise UnknownRegion(topic, region)
            if its.log_end is None or its.mapped_at is None:
                raise BadInput(
                    f"topic {topic} was not seen yet, or not since a reset: let its owner send its map, run: sexton "
                    f"wal explain {topic}; then say from where region {region} reads"
                )
            first, end = max(its.floor or 0, its.log_start or 0), its.log_end
            at = first if to is None else to
            if not first <= at <= end:
                raise BadInput(f"{at} is not in topic {topic}: it has {first} to {end}, as seen last")
            # Nothing that it told before says more than the operator, whatever its manifest knows.
            # Reports on their way from before are of an epoch that is over.
            values = UNTOLD | {"keep_from": at, "first": at, "flushed": [], "marks": 0, "source": KeepFromSource.RESET}
            values |= {"epoch": row.epoch + 1}
            c.execute(update(r).where(of).values(**values))
            return Region(**{**row._mapping, **values})

    def topic(self, name: str) -> Topic:
        """Forget what is known of a topic, as of one that was made anew; it ends a quarantine. It stays enabled.

        Nothing of it is purged until its owner has mapped it again and all of its regions have told anew: in epochs
        above those that are known, so that nothing counts that is on its way from before. Their manifests say nothing:
        they may count by a topic that is no more. A region whose node is gone needs a reset of its own.

        Raises:
            UnknownTopic: nobody has told of it.
        """
        db, t, r, pin = self._db, self._db.t.wal_topic, self._db.t.wal_region, self._db.t.wal_pin
        anew: dict[str, Any] = {
            "kafka_id": "",
            "floor": None,
            "log_start": None,
            "log_end": None,
            "quarantined": "",
            "blocked": {},
        }
        anew |= {"map_digest": "", "mapped_at": None, "emptied_at": None, "looked_at": None, "fault": ""}
        with deciding(db, name) as c:
            known(db, c, name)
            # Whatever went or moved holds until it is told of again: where the topic is the same, it is all there.
            left = select(r.c.region).where(r.c.topic == name, r.c.state != RegionState.GONE).limit(1)
            if c.execute(left).first() is None:
                anew["emptied_at"] = db.now(c)
            c.execute(update(t).where(t.c.name == name).values(**anew))
            untold = UNTOLD | {
                "first": 0,
                "flushed": [],
                "marks": 0,
                "source": KeepFromSource.RESET,
                "epoch": r.c.epoch + 1,
            }
            c.execute(update(r).where(r.c.topic == name).values(**untold))
            c.execute(pin.delete().where(pin.c.topic == name))
            return known(db, c, name)

    def restored(self) -> int:
        """Trust no map: this database was restored from a copy. Nothing is purged before each owner has sent its own.

        Returns how many topics wait for one.
        """
        t = self._db.t.wal_topic
        with self._db.write() as c:
            c.execute(update(t).values(seq=t.c.seq + 1, map_digest="", mapped_at=None))
            return len(c.execute(select(t.c.name).where(t.c.enabled)).all())
