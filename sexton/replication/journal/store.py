"""The journal as rows. Its numbers come from one locked row: whoever reads up to 7 has seen all that is below.

A number from a sequence would be taken before its transaction commits: a reader could see 8 while 7 is still open, and
would never ask for it again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.replication.journal.errors import FollowerAhead, JournalTrimmed
from sexton.replication.journal.model import Follower, JournalEntry, JournalPage

PAGE_ENTRIES = 100
TRIMMED_AT_ONCE = 10_000


class JournalStore:
    """Journals of all instances."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def append(self, c: Connection, instance: str, op: int, body: dict[str, Any]) -> int:
        """Append an entry in the transaction that does what it says; return its number."""
        head, t = self._db.t.journal_head, self._db.t.journal
        new = upsert(self._db, head).values(instance=instance, seq=1)
        taken = new.on_conflict_do_update(index_elements=["instance"], set_={"seq": head.c.seq + 1})
        seq = int(c.execute(taken.returning(head.c.seq)).scalar_one())
        c.execute(insert(t).values(instance=instance, seq=seq, op=op, body=body, at=self._db.now(c)))
        return seq

    def read(self, instance: str, after: int, follower: str = "") -> JournalPage:
        """Return the entries behind one, a hundred at most.

        Args:
            instance: whose journal.
            after: the last entry that whoever asks has applied; 0: none.
            follower: who asks; entries that it has not applied are kept for it.

        Raises:
            JournalTrimmed: the next entry is gone.
            JournalAhead: there was never an entry ``after``.
        """
        t = self._db.t.journal
        check_text(follower)
        with self._db.write() if follower else self._db.read() as c:
            head, trimmed = self.bounds(c, instance)
            if after > head:
                raise FollowerAhead(instance, after, head)
            if after < trimmed:
                raise JournalTrimmed(instance, after, trimmed + 1)
            if follower:
                self._heard(c, instance, follower, after)
            its = and_(t.c.instance == instance, t.c.seq > after)
            rows = c.execute(select(t.c.seq, t.c.op, t.c.body, t.c.at).where(its).order_by(t.c.seq).limit(PAGE_ENTRIES))
            found = tuple(JournalEntry(**r._mapping) for r in rows)
            # Without a hole: they may have been trimmed since we asked what is there.
            if head > after and (not found or found[0].seq != after + 1):
                raise JournalTrimmed(instance, after, found[0].seq if found else head + 1)
            return JournalPage(entries=found, head=head)

    def head(self, instance: str) -> int:
        """Return the number of the last entry, 0 before the first: asked again and again while somebody waits."""
        with self._db.read() as c:
            return self.bounds(c, instance)[0]

    def bounds(self, c: Connection, instance: str) -> tuple[int, int]:
        """Return the numbers of the last entry, and of the last one that is gone."""
        head = self._db.t.journal_head
        row = c.execute(select(head.c.seq, head.c.trimmed).where(head.c.instance == instance)).one_or_none()
        return (0, 0) if row is None else (row.seq, row.trimmed)

    def followers(self, instance: str) -> Sequence[Follower]:
        """Return who follows, the slowest first."""
        t = self._db.t.journal_follower
        with self._db.read() as c:
            found = c.execute(select(t).where(t.c.instance == instance).order_by(t.c.applied, t.c.name))
            return [Follower(**r._mapping) for r in found]

    def forget(self, instance: str, follower: str) -> bool:
        """Keep nothing for a follower any more; tell whether there was one."""
        t = self._db.t.journal_follower
        with self._db.write() as c:
            return c.execute(delete(t).where(t.c.instance == instance, t.c.name == follower)).rowcount == 1

    def trim(self, instance: str, patience_ms: int, heartbeat: Callable[[], None], *, patient: bool = True) -> int:
        """Let go of entries that all followers have; return how many.

        Args:
            instance: whose journal.
            patience_ms: a follower that was silent for so long is LOST, and has to begin anew. Where nobody follows,
                entries are kept for as long.
            beat: called between some thousands of entries.
            patient: whether somebody would have heard a follower all that time; if not, nobody is LOST.
        """
        gone = 0
        while n := self._trim(instance, patience_ms, patient=patient):
            gone += n
            heartbeat()
        return gone

    def _trim(self, instance: str, patience_ms: int, *, patient: bool) -> int:
        t, head, follower = self._db.t.journal, self._db.t.journal_head, self._db.t.journal_follower
        with self._db.write() as c:
            now = self._db.now(c)
            mine = and_(follower.c.instance == instance, follower.c.lost_at.is_(None))
            if patient:
                c.execute(update(follower).where(mine, follower.c.seen_at <= now - patience_ms).values(lost_at=now))
            slowest = c.execute(select(func.min(follower.c.applied)).where(mine)).scalar_one()
            _, trimmed = self.bounds(c, instance)
            its = and_(t.c.instance == instance, t.c.seq <= trimmed + TRIMMED_AT_ONCE)
            goes = t.c.at <= now - patience_ms if slowest is None else t.c.seq <= slowest
            upto = c.execute(select(func.max(t.c.seq)).where(its, goes)).scalar_one()
            if upto is None:
                return 0
            gone = c.execute(delete(t).where(t.c.instance == instance, t.c.seq <= upto)).rowcount
            c.execute(update(head).where(head.c.instance == instance).values(trimmed=upto))
            return gone

    def _heard(self, c: Connection, instance: str, name: str, applied: int) -> None:
        t = self._db.t.journal_follower
        values = {"applied": applied, "seen_at": self._db.now(c), "lost_at": None}
        new = upsert(self._db, t).values(instance=instance, name=name, **values)
        # Never back: a poll that was under way says less than the one behind it. One that begins anew says more.
        newer = or_(new.excluded.applied >= t.c.applied, t.c.lost_at.is_not(None))
        c.execute(new.on_conflict_do_update(index_elements=["instance", "name"], set_=values, where=newer))
