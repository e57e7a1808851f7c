"""Append entries to journals, read them, and delete those that all followers have applied.

Entry numbers come from one locked row: a reader that has read up to 7 has seen every lower number. A number from a
sequence would be taken before its transaction commits: a reader could see 8 while 7 is still open, and would never ask
for 7 again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Text, and_, cast, delete, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.replication.errors import FollowerAhead, JournalTrimmed, UnknownFollower
from sexton.replication.journal.model import Follower, JournalEntry, JournalPage

PAGE_ENTRIES = 100
PAGE_CHARS = 2**20
"""A page ends with the entry whose body reaches this many characters in total."""
TRIMMED_AT_ONCE = 10_000


class JournalStore:
    """The journals of all instances."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def append(self, c: Connection, instance: str, op: int, bodies: Sequence[dict[str, Any]]) -> int:
        """Append an entry per body in the transaction that makes the change; return the number of the last."""
        head, t, count = self._db.t.journal_head, self._db.t.journal, len(bodies)
        first = upsert(head).values(instance=instance, seq=count)
        next_numbers = first.on_conflict_do_update(index_elements=["instance"], set_={"seq": head.c.seq + count})
        last = int(c.execute(next_numbers.returning(head.c.seq)).scalar_one())
        entry = {"instance": instance, "op": op, "at": self._db.now(c)}
        c.execute(insert(t), [entry | {"seq": last - count + n, "body": body} for n, body in enumerate(bodies, 1)])
        return last

    def read(self, instance: str, after: int, follower: str = "") -> JournalPage:
        """Return the entries after a number, a hundred at most, and about 1 MiB of bodies.

        ``after``: the last entry that the caller has applied; 0: none. ``follower``: the caller's name; entries that it
        has not applied are retained for it. Empty: not a follower.

        Raises:
            JournalTrimmed: the next entry is deleted.
            FollowerAhead: there was never an entry ``after``.
        """
        check_text(follower)
        with self._db.write() if follower else self._db.read() as c:
            head, trimmed = self.bounds(c, instance)
            if after > head:
                raise FollowerAhead(instance, after, head)
            if after < trimmed:
                raise JournalTrimmed(instance, after, trimmed + 1)
            if follower:
                self._record_progress(c, instance, follower, after, head)
            # The database adds up the sizes of bodies: those of other pages are not read.
            t = self._db.t.journal
            later = select(t.c.seq, t.c.op, t.c.body, t.c.at).where(t.c.instance == instance, t.c.seq > after)
            entry = later.order_by(t.c.seq).limit(PAGE_ENTRIES).subquery()
            size = func.length(cast(entry.c.body, Text))
            chars_before = func.sum(size).over(order_by=entry.c.seq, rows=(None, -1))
            sized = select(entry, func.coalesce(chars_before, 0).label("chars_before")).subquery()
            page = select(sized.c.seq, sized.c.op, sized.c.body, sized.c.at).where(sized.c.chars_before < PAGE_CHARS)
            entries = tuple(JournalEntry(**row._mapping) for row in c.execute(page.order_by(sized.c.seq)))
            # The entries may have been trimmed since their bounds were read: never return a page with a hole.
            if head > after and (not entries or entries[0].seq != after + 1):
                raise JournalTrimmed(instance, after, entries[0].seq if entries else head + 1)
            return JournalPage(entries=entries, head=head)

    def head(self, instance: str) -> int:
        """Return the number of the last entry, 0 if there is none. Polled while a client waits for an entry."""
        with self._db.read() as c:
            return self.bounds(c, instance)[0]

    def bounds(self, c: Connection, instance: str) -> tuple[int, int]:
        """Return the numbers of the last entry, and of the last one that is deleted."""
        head = self._db.t.journal_head
        row = c.execute(select(head.c.seq, head.c.trimmed).where(head.c.instance == instance)).one_or_none()
        return (0, 0) if row is None else (row.seq, row.trimmed)

    def followers(self, instance: str) -> Sequence[Follower]:
        """Return the followers, the slowest first."""
        t = self._db.t.journal_follower
        with self._db.read() as c:
            followers = c.execute(select(t).where(t.c.instance == instance).order_by(t.c.applied, t.c.name))
            return [Follower(**row._mapping) for row in followers]

    def forget(self, instance: str, follower: str) -> None:
        """Remove a follower, so that no entries are retained for it; raise ``UnknownFollower`` if there is none."""
        t = self._db.t.journal_follower
        with self._db.write() as c:
            if not c.execute(delete(t).where(t.c.instance == instance, t.c.name == follower)).rowcount:
                raise UnknownFollower(instance, follower)

    def trim(self, instance: str, patience_ms: int, heartbeat: Callable[[], None], *, steady: bool = True) -> int:
        """Delete entries that all followers have applied; return how many.

        A follower that was silent for ``patience_ms`` becomes LOST, and has to load a snapshot, if Sexton could receive
        requests during all of that time (``steady``). If there is no follower, entries are retained for that long.
        ``heartbeat`` is called between some thousands of entries.
        """
        t, head, follower = self._db.t.journal, self._db.t.journal_head, self._db.t.journal_follower
        active = and_(follower.c.instance == instance, follower.c.lost_at.is_(None))
        deleted = 0
        while True:
            with self._db.write() as c:
                now = self._db.now(c)
                limit = now - patience_ms
                if steady:
                    c.execute(update(follower).where(active, follower.c.seen_at <= limit).values(lost_at=now))
                slowest = c.execute(select(func.min(follower.c.applied)).where(active)).scalar_one()
                _, trimmed = self.bounds(c, instance)
                chunk = and_(t.c.instance == instance, t.c.seq <= trimmed + TRIMMED_AT_ONCE)
                deletable = t.c.at <= limit if slowest is None else t.c.seq <= slowest
                upto = c.execute(select(func.max(t.c.seq)).where(chunk, deletable)).scalar_one()
                if upto is None:
                    return deleted
                entries = c.execute(delete(t).where(t.c.instance == instance, t.c.seq <= upto)).rowcount
                c.execute(update(head).where(head.c.instance == instance).values(trimmed=upto))
            if not entries:  # another process has deleted them
                return deleted
            deleted += entries
            heartbeat()

    def _record_progress(self, c: Connection, instance: str, name: str, applied: int, head: int) -> None:
        """Store what a follower has applied. One that stands still below the head is not seen: it becomes LOST."""
        t = self._db.t.journal_follower
        values = {"applied": applied, "seen_at": self._db.now(c), "lost_at": None}
        new = upsert(t).values(instance=instance, name=name, **values)
        now_applied = new.excluded.applied
        counts = or_(
            now_applied > t.c.applied,
            and_(now_applied == t.c.applied, literal(applied == head)),
            # Never move back: a delayed poll reports less than a later one. A LOST follower may begin again earlier.
            and_(now_applied < t.c.applied, t.c.lost_at.is_not(None)),
        )
        c.execute(new.on_conflict_do_update(index_elements=["instance", "name"], set_=values, where=counts))
