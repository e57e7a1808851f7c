"""Remove the rows of records that are in no log any more, a few thousand at a time; nobody waits for that."""

from collections.abc import Callable

from sqlalchemy import Connection, and_, delete, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.replication.binlog.model import Log
from sexton.replication.binlog.sql import rows

AT_ONCE = 5_000


class Remover:
    """Removes rows. May be cut off anywhere, and begun again."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def remove(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Remove what is below the watermarks; return how many records of how many logs that were."""
        t, of, b, gone = self._db.t.binlog_log, self._db.t.binlog_of, self._db.t.binlog, 0
        mine = and_(of.c.instance == t.c.instance, of.c.db == t.c.db, of.c.tbl == t.c.tbl, of.c.seq <= t.c.watermark)
        whole = and_(b.c.instance == t.c.instance, b.c.db == t.c.db, b.c.seq <= t.c.watermark, t.c.tbl == "")
        left = select(of.c.seq).where(mine).exists() | select(b.c.seq).where(whole).exists()
        with self._db.read() as c:
            logs = [rows.log(r) for r in c.execute(select(t).where(t.c.instance == instance, left).order_by(t.c.db))]
        for its in sorted(logs, key=lambda its: (its.db, its.tbl == "", its.tbl)):  # tables first
            while n := self._chunk(its):
                gone += n
                reached("binlog.removed")
                heartbeat()
            if not its.tbl:
                self._unnamed(its, heartbeat)
        return gone

    def _chunk(self, its: Log) -> int:
        """Take some records out of one log, and remove those that are in no other."""
        of, part, b = self._db.t.binlog_of, self._db.t.binlog_part, self._db.t.binlog
        key = (its.db, its.tbl)
        with self._db.write() as c:
            own = self._own(c, its)
            below = and_(rows.one(of, its.instance, key), of.c.seq <= its.watermark)
            seqs = list(c.execute(select(of.c.seq).where(below).order_by(of.c.seq).limit(AT_ONCE)).scalars())
            if not seqs:
                return 0
            c.execute(delete(of).where(rows.one(of, its.instance, key), in_list(self._db, of.c.seq, seqs)))
            c.execute(delete(part).where(rows.one(part, its.instance, key), part.c.seq <= seqs[-1]))
            elsewhere = and_(of.c.instance == b.c.instance, of.c.db == b.c.db, of.c.seq == b.c.seq)
            free = [~select(of.c.seq).where(elsewhere).exists()]
            free += [b.c.seq <= own.watermark] if own.enabled else []
            here = and_(b.c.instance == its.instance, b.c.db == its.db, in_list(self._db, b.c.seq, seqs))
            c.execute(delete(b).where(here, *free))
            return len(seqs)

    def _unnamed(self, own: Log, heartbeat: Callable[[], None]) -> None:
        """Remove what only the database's log had: its tables are dropped, or were cut before."""
        b, of, after = self._db.t.binlog, self._db.t.binlog_of, -1
        elsewhere = and_(of.c.instance == b.c.instance, of.c.db == b.c.db, of.c.seq == b.c.seq)
        while True:
            with self._db.write() as c:
                here = and_(b.c.instance == own.instance, b.c.db == own.db)
                below = select(b.c.seq).where(here, b.c.seq > after, b.c.seq <= own.watermark).order_by(b.c.seq)
                seqs = list(c.execute(below.limit(AT_ONCE)).scalars())
                if not seqs:
                    return
                alone = ~select(of.c.seq).where(elsewhere).exists()
                c.execute(delete(b).where(here, in_list(self._db, b.c.seq, seqs), alone))
                after = seqs[-1]
            heartbeat()

    def _own(self, c: Connection, its: Log) -> Log:
        """Return the log of the database, and let nobody enable it meanwhile."""
        t = self._db.t.binlog_log
        return rows.log(c.execute(select(t).where(rows.one(t, its.instance, (its.db, ""))).with_for_update()).one())
