"""Cuts on their way to backends: what should go (desired), what may go (granted), and what is gone (acknowledged).

A backend pulls. What it may let go is decided when it asks, under the guard, for the page it is given: up to where the
cuts have come, and no copy of the tablet that counts lacks anything. What was granted stays granted.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, and_, case, delete, or_, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list, upsert
from sexton.kernel.crash_points import reached
from sexton.operators.controls.port import Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog.model import MOST, CutDone, CutPage, Granted, Taken
from sexton.replication.binlog.sql.config import check_names
from sexton.replication.replicas.sql.rows import needs, went

PAGE_CUTS = 1_000
PARTITIONS_AT_ONCE = 100
DONE, UNKNOWN = "done", "unknown"
UID = r"[A-Za-z0-9.-]{1,128}"
QUEUE_MS = 7 * 86_400_000
"""For so long after its last pull a worker of ours is told of cuts; one that is back asks by itself."""
DETAIL_CHARACTERS = 500


class Sender:
    """What backends are told, and tell."""

    def __init__(self, db: Database, controls: ControlStore) -> None:
        self._db, self._controls = db, controls

    def spread(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Let the copies of partitions know that were cut since the last time; return how many copies those are.

        A statement for some hundreds of partitions, however many tablets they have. Nothing is decided by it.
        """
        db, t, fold, told = self._db, self._db.t.replica, self._db.t.binlog_fold, 0
        new = and_(fold.c.instance == instance, fold.c.spread.is_(False))
        while True:
            with deciding(db, instance) as c:
                some = select(fold.c.db, fold.c.tbl, fold.c.part).where(new).limit(PARTITIONS_AT_ONCE)
                keys = [{"name": r.db, "tbl": r.tbl, "part": r.part} for r in c.execute(some)]
                if not keys:
                    return told
                g = as_rows(db, keys, name=Text(), tbl=Text(), part=Text())
                whose = and_(fold.c.instance == instance, fold.c.db == g.c.name)
                here = and_(whose, fold.c.tbl == g.c.tbl, fold.c.part == g.c.part)
                cut = select(fold.c.db, fold.c.tbl, fold.c.part, fold.c.version).join_from(fold, g, here).subquery()
                same = and_(t.c.instance == instance, *(t.c[n] == cut.c[n] for n in ("db", "tbl", "part")))
                lower = and_(same, t.c.desired < cut.c.version, t.c.dropped.is_(False))
                told += max(0, c.execute(update(t).where(lower).values(desired=cut.c.version)).rowcount)
                c.execute(update(fold).where(here).values(spread=True))
                reached("binlog.spread")
            heartbeat()

    def page(
        self, instance: str, backend: str, after: str = "", limit: int = PAGE_CUTS, *, queue: bool = False
    ) -> CutPage:
        """Grant what may go from a backend, for a page of its copies.

        Args:
            instance: whose copies.
            backend: who asks.
            after: only copies whose uids come after this one.
            limit: how many copies are looked at; some of them may have to keep all they have.
            queue: whether a worker of ours asks.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(backend, after)
        db, t = self._db, self._db.t.replica
        with deciding(db, instance) as c:
            self._note(c, instance, backend, queue=queue)
            try:
                self._controls.check_in(c, instance)
            except (Halted, NotEnabled) as e:
                return CutPage(why=str(e))
            limit = max(1, min(limit, PAGE_CUTS))
            mine = and_(t.c.instance == instance, t.c.backend == backend, t.c.desired > t.c.acked, t.c.uid > after)
            columns = (t.c.uid, t.c.tablet, t.c.desired, t.c.granted, t.c.acked, t.c.dropped)
            due = c.execute(select(*columns).where(mine).order_by(t.c.uid).limit(limit)).all()
            lowest = needs(db, c, instance, sorted({r.tablet for r in due if not r.dropped}))
            may = {r.uid: max(r.granted, r.desired if r.dropped else min(r.desired, lowest[r.tablet] - 1)) for r in due}
            raised = [{"uid": r.uid, "granted": may[r.uid]} for r in due if may[r.uid] > r.granted]
            if raised:
                g = as_rows(db, raised, uid=Text(), granted=BigInteger())
                its = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == g.c.uid)
                c.execute(update(t).where(its).values(granted=g.c.granted))
                went(db, c, instance, {r.tablet: may[r.uid] for r in due if may[r.uid] > r.granted and not r.dropped})
            reached("binlog.granted")
        cuts = [Granted(uid=r.uid, tablet=r.tablet, version=may[r.uid]) for r in due if may[r.uid] > r.acked]
        return CutPage(cuts=tuple(cuts), next=due[-1].uid if len(due) == limit else "")

    def acknowledge(self, instance: str, backend: str, done: Sequence[CutDone]) -> Taken:
        """Note what is gone from a backend. More than was granted is ignored, and less than before is as good.

        Under the guard, as all that writes rows of copies: nobody waits in a circle.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(backend)
        db, t = self._db, self._db.t.replica
        most: dict[str, dict[str, Any]] = {}
        for its in done:
            if not re.fullmatch(UID, its.uid):
                continue
            problem = "" if its.outcome == DONE else f"{_short(its.outcome)}: {_short(its.detail)}".removesuffix(": ")
            most[its.uid] = {"uid": its.uid, "acked": max(-1, min(its.version, MOST)), "problem": problem}
            most[its.uid] |= {"well": int(its.outcome == DONE), "unknown": int(its.outcome == UNKNOWN)}
        if not most:
            return Taken(ignored=len(done))
        flags = {"well": BigInteger(), "unknown": BigInteger()}
        g = as_rows(db, most.values(), uid=Text(), acked=BigInteger(), problem=Text(), **flags)
        mine = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == g.c.uid, g.c.acked <= t.c.granted)
        # Whoever could not let go of all of it has not let go of what was granted, whatever else it says.
        all_ = case((g.c.well == 1, g.c.acked), (g.c.acked < t.c.granted, g.c.acked), else_=t.c.granted - 1)
        further = case((all_ > t.c.acked, all_), else_=t.c.acked)
        with deciding(db, instance) as c:
            told = update(t).where(mine).values(acked=further, problem=g.c.problem).returning(t.c.uid)
            n = len(c.execute(told).all())  # SQLite counts no rows where the statement begins with what is given
            # Of a dropped tablet nothing is left to be done where all is gone, or the backend has not got it at all.
            over = or_(t.c.acked >= MOST, select(g.c.uid).where(g.c.uid == t.c.uid, g.c.unknown == 1).exists())
            mine = and_(t.c.instance == instance, t.c.backend == backend, t.c.dropped, t.c.granted >= MOST)
            c.execute(delete(t).where(mine, in_list(db, t.c.uid, list(most)), over))
        return Taken(taken=n, ignored=len(done) - n)

    def waiting(self, instance: str, after: str, limit: int) -> Sequence[str]:
        """Return backends beside which a worker of ours runs, and of whose copies something should go; by name."""
        t, b = self._db.t.replica, self._db.t.backend
        due = and_(t.c.instance == b.c.instance, t.c.backend == b.c.name, t.c.desired > t.c.acked)
        with self._db.read() as c:
            now = self._db.now(c)
            mine = and_(b.c.instance == instance, b.c.queue_at > now - QUEUE_MS, b.c.name > after)
            waits = select(b.c.name).where(mine, select(t.c.uid).where(due).exists())
            return list(c.execute(waits.order_by(b.c.name).limit(limit)).scalars())

    def _note(self, c: Connection, instance: str, backend: str, *, queue: bool) -> None:
        t, now = self._db.t.backend, self._db.now(c)
        values = {"pulled_at": now} | ({"queue_at": now} if queue else {})
        new = upsert(self._db, t).values(instance=instance, name=backend, **values)
        c.execute(new.on_conflict_do_update(index_elements=["instance", "name"], set_=values))


def _short(text: str) -> str:
    """Return what a database can hold of what a backend says."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:DETAIL_CHARACTERS]
