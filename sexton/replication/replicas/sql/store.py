"""Replicas, for people and for rounds: what is wrong with which, who no longer counts, and why something is kept."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Table, and_, func, or_, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.sql.config import check_names
from sexton.replication.journal.model import Mark, Snapshot
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas import policy
from sexton.replication.replicas.errors import UnknownTablet
from sexton.replication.replicas.model import Replica, ReplicaSettings
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import of_tablets, replica, well


class ReplicaStore:
    """Replicas of one deployment."""

    def __init__(self, db: Database, terms: ReplicaSettings) -> None:
        self._db, self._terms = db, terms

    def tablet(self, instance: str, tablet: str) -> tuple[Sequence[Replica], int]:
        """Return the replicas of a tablet, and the time by which they are judged; raises ``UnknownTablet``."""
        with self._db.read() as c:
            found = of_tablets(self._db, c, instance, [tablet]).get(tablet)
            if not found:
                raise UnknownTablet(tablet)
            return found, self._db.now(c)

    def unwell(self, instance: str, limit: int = 100, *, every: bool = False) -> tuple[Sequence[Replica], int]:
        """Return replicas that are not in order, or all, by tablet; and the time by which they are judged."""
        t = self._db.t.replica
        with self._db.read() as c:
            now = self._db.now(c)
            wrong = or_(t.c.bad_since.is_not(None), t.c.gap_since.is_not(None), t.c.fresh_until <= now)
            wrong = or_(wrong, t.c.full_copy != "", t.c.problem != "", t.c.crossing)
            asked = select(t).where(t.c.instance == instance, t.c.dropped.is_(False))
            asked = (asked if every else asked.where(wrong)).order_by(t.c.tablet, t.c.backend).limit(limit)
            return [replica(r) for r in c.execute(asked)], now

    def full_copy(self, instance: str, tablet: str, backend: str, why: str) -> Replica:
        """Say that a replica can only be repaired by a full copy, so that what it lacks need not be kept for it.

        It counts again when it has reported that it has all that may be gone.

        Raises:
            UnknownInstance, UnknownTablet: there is none.
            BadInput: no reason is given.
        """
        check_names(tablet, backend, why)
        if not why.strip():
            raise BadInput("say why: others must know why a replica no longer counts")
        t = self._db.t.replica
        mine = and_(t.c.instance == instance, t.c.tablet == tablet, t.c.backend == backend, t.c.dropped.is_(False))
        with deciding(self._db, instance) as c:
            values = {"full_copy": why.strip(), "full_copy_at": self._db.now(c), "full_copy_until": _newest(t)}
            row = c.execute(update(t).where(mine).values(**values).returning(t)).one_or_none()
            if row is None:
                raise UnknownTablet(tablet, backend)
            return replica(row)

    def give_up(self, instance: str) -> int:
        """Count no longer what has been unwell for longer than the hold limit; return how many those are.

        Only where another copy of the tablet is well: of the last good copy nothing goes, however long it is away.
        """
        t, n = self._db.t.replica, 0
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            limit = now - self._terms.hold_limit_seconds * 1000
            long = or_(t.c.fresh_until <= limit, t.c.bad_since <= limit, t.c.gap_since <= limit)
            other = t.alias("other")
            same = and_(other.c.instance == t.c.instance, other.c.tablet == t.c.tablet, other.c.uid != t.c.uid)
            another = select(other.c.uid).where(same, well(other, now)).exists()
            mine = and_(t.c.instance == instance, t.c.full_copy == "", t.c.dropped.is_(False))
            given = (
                update(t)
                .where(mine, long, another)
                .values(full_copy=BY_LIMIT, full_copy_at=now, full_copy_until=_newest(t))
            )
            n = c.execute(given).rowcount
        return n

    def snapshot(self, instance: str) -> Snapshot:
        """Return what a follower begins with that has missed entries of the journal."""
        t, log = self._db.t.replica, self._db.t.binlog_log
        with self._db.snapshot() as c:
            head, _ = JournalStore(self._db).bounds(c, instance)
            mine = and_(t.c.instance == instance, t.c.dropped.is_(False))
            wrong = select(t).where(mine, or_(t.c.bad_since.is_not(None), t.c.failed >= 0)).order_by(t.c.uid)
            found = [told for r in c.execute(wrong) for told in policy.standing(replica(r))]
            logs = c.execute(select(log).where(log.c.instance == instance).order_by(log.c.db, log.c.tbl))
            marks = [
                Mark(db=r.db, tbl=r.tbl, seq=max(r.watermark, r.begins), dropped=r.dropped_at is not None) for r in logs
            ]
        return Snapshot(seq=head, marks=tuple(marks), replicas=tuple(found))


def _newest(t: Table) -> ColumnElement[int]:
    """Return the highest version that any copy has of the tablet of the row that is updated."""
    other = t.alias("newest")
    same = and_(other.c.instance == t.c.instance, other.c.tablet == t.c.tablet)
    return select(func.max(other.c.version)).where(same).scalar_subquery()
