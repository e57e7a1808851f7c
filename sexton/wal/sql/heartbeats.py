"""What nodes report of their regions: one statement for all of them. No topic is locked: a report only raises."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, and_, case, func, null, or_, select, update

from sexton.database.engine import Database
from sexton.database.rows import as_rows, upsert
from sexton.wal import policy
from sexton.wal.model import HeartbeatReceipt, KeepFromSource, LeaderReport
from sexton.wal.sql.rows import most


class HeartbeatStore:
    """Takes reports."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def hear(self, node: str, reports: Sequence[LeaderReport], url: str = "") -> HeartbeatReceipt:
        """Raise what regions need by what their leaders say, component by component.

        ``url``: where the node takes requests to flush; empty: as it said before.

        What is above the topic's end as we know it waits until we see an end as high: somebody's wrong number must
        not count, and the end we know is older than a report. Of two that wait the lower one is kept, so that a busy
        topic's end comes by it. What is said in another epoch than the map or an opening made known, by a follower, of
        a region that is not mapped, or in numbers that cannot be, is ignored.
        """
        data = []
        for its in reports:
            needs = policy.keep_from(its.streams)
            if its.leader and policy.believable(its):
                flushed = [s.flushed for s in its.streams]
                # With neither mark it says nothing but who leads it, and so whom to ask to flush.
                idle = None in flushed or (needs or 0) - 1 > min(f for f in flushed if f is not None)
                data.append(
                    {"topic": its.topic, "region": its.region, "epoch": its.epoch, "needs": needs}
                    | {"flushed": policy.knows(flushed), "marks": sum(policy.knows(flushed))}
                    | {"source": KeepFromSource.IDLE if idle else KeepFromSource.FLUSHED}
                )
        db, r, t = self._db, self._db.t.wal_region, self._db.t.wal_topic
        number = BigInteger()
        types = {"topic": Text(), "region": Text(), "source": Text(), "flushed": r.c.flushed.type}
        g = as_rows(db, data, **types, epoch=number, needs=number, marks=number)
        its_own = and_(r.c.topic == g.c.topic, r.c.region == g.c.region, g.c.epoch == r.c.epoch)
        seen = g.c.needs <= func.coalesce(t.c.log_end, -1)
        newer = and_(seen, g.c.needs > func.coalesce(r.c.keep_from, -1))
        waits = or_(r.c.waits <= g.c.needs, g.c.needs.is_(None))  # false where nothing waits
        heard = (
            update(r)
            .where(its_own, t.c.name == r.c.topic)
            .values(
                keep_from=case((seen, most(db, r.c.keep_from, g.c.needs)), else_=r.c.keep_from),
                marks=case((seen, most(db, r.c.marks, g.c.marks)), else_=r.c.marks),
                flushed=case((and_(seen, g.c.marks >= r.c.marks), g.c.flushed), else_=r.c.flushed),
                source=case((newer, g.c.source), else_=r.c.source),
                waits=case((seen, None), (waits, r.c.waits), else_=g.c.needs),
                waits_marks=case((seen, None), (waits, r.c.waits_marks), else_=g.c.marks),
                waits_flushed=case((seen, null()), (waits, r.c.waits_flushed), else_=g.c.flushed),
                node=node,
            )
            .returning(r.c.waits)
        )
        with db.write() as c:
            now = db.now(c)
            if url:
                self._note(c, {"name": node, "url": url, "seen_at": now})
            if db.dialect == "postgresql":  # else two who take the same rows in another order wait for each other
                rows = select(r.c.region).select_from(g).join(r, its_own).order_by(r.c.topic, r.c.region)
                c.execute(rows.with_for_update(of=r))
            told = [row.waits is not None for row in c.execute(heard.values(reported_at=now))] if data else []
        return HeartbeatReceipt(taken=len(told) - sum(told), waiting=sum(told), ignored=len(reports) - len(told))

    def _note(self, c: Connection, node: Mapping[str, Any]) -> None:
        t = self._db.t.wal_node
        new = upsert(self._db, t).values(**node)
        c.execute(new.on_conflict_do_update(index_elements=[t.c.name], set_=dict(node)))
