"""How logs are kept, as their owner says, and the end of those whose table or database is dropped."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, delete, func, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list, upsert
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import UnknownLog
from sexton.replication.binlog.model import MOST, Config, Log
from sexton.replication.binlog.sql import rows
from sexton.replication.journal.model import Op, Tombstone, gc_binlog
from sexton.replication.journal.store import JournalStore

COPIES_AT_ONCE = 10_000


class ConfigStore:
    """Logs of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db, self._journal = db, JournalStore(db)

    def put(self, instance: str, name: str, table: str, config: Config, from_seq: int = 0) -> Log:
        """Say how a log is kept from now on; repeatable.

        Args:
            instance: whose database it is.
            name: of the database.
            table: of which table the log is; empty: of the whole database.
            config: how.
            from_seq: the database's commit_seq now. Of a log that begins only now, no earlier record is in it.

        Raises:
            UnknownInstance: no such instance.
            BadInput: it is dropped, or a number cannot be.
        """
        check_names(name, table)
        if not 0 <= from_seq < MOST:
            raise BadInput(f"a commit_seq is 0 to {MOST - 1}, not {from_seq}")
        db, t = self._db, self._db.t.binlog_log
        with deciding(db, instance) as c:
            ensure(db, c, instance, name)
            found = rows.logs(db, c, instance, name, [table] if table else None, lock=True)
            own, before = found[""], found.get(table)
            if own.dropped_at is not None or (before is not None and before.dropped_at is not None):
                raise BadInput(f"{name}{f'/{table}' if table else ''} is dropped; names never come back")
            # What held it before is of no concern for what it is now.
            values: dict[str, Any] = config.model_dump() | {"held": {}, "held_since": None, "wants": None}
            values |= {"wants_since": None}
            at = max(own.last_seq, from_seq)
            begins = config.enabled and not (before or Config(enabled=False)).enabled
            late = [its for its in found.values() if _late(its, own, table, from_seq)] if begins else []
            if begins and before is None:
                values |= {"begins": own.floor if own.enabled else at}
            self._begin(c, instance, name, late, at)
            new = upsert(db, t).values(instance=instance, db=name, tbl=table, **values)
            c.execute(new.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=values))
            return rows.logs(db, c, instance, name, [table])[table]

    def _begin(self, c: Connection, instance: str, name: str, late: Sequence[Log], at: int) -> None:
        """Let logs begin behind a record: what was not stored, for nobody kept them, must not look like nothing."""
        t = self._db.t.binlog_log
        if late and at:
            of = and_(t.c.instance == instance, t.c.db == name, in_list(self._db, t.c.tbl, [i.tbl for i in late]))
            c.execute(update(t).where(of).values(begins=at))
            tables = tuple(its.tbl for its in late if its.tbl)
            tombstone = Tombstone(database=len(tables) < len(late), db=name, tables=tables, seq=at)
            self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog([tombstone]))

    def logs(self, instance: str, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[Log]:
        """Return the logs behind one, in the order of database and table."""
        check_text(*after)
        t = self._db.t.binlog_log
        beyond = (t.c.db > after[0]) | and_(t.c.db == after[0], t.c.tbl > after[1])
        asked = select(t).where(t.c.instance == instance, beyond).order_by(t.c.db, t.c.tbl).limit(limit)
        with self._db.read() as c:
            return [rows.log(r) for r in c.execute(asked)]

    def log(self, instance: str, name: str, table: str = "") -> Log:
        """Return one log, whether it is enabled, dropped or neither; raises ``UnknownLog``."""
        with self._db.read() as c:
            its = rows.logs(self._db, c, instance, name).get(table)
        if its is None:
            raise UnknownLog(f"{name}/{table}" if table else name)
        return its

    def approve(self, instance: str, name: str, table: str = "", upto: int | None = None) -> Log:
        """Let the next look cut what waits for approval, and no more than that.

        Args:
            instance: whose database it is.
            name: of the database.
            table: of which table the log is; empty: of the whole database.
            upto: the last record that was shown to who approves; None: whatever waits now.

        Raises:
            UnknownInstance, UnknownLog: there is none.
            BadInput: nothing of it waits.
        """
        t = self._db.t.binlog_log
        with deciding(self._db, instance) as c:
            its = rows.logs(self._db, c, instance, name).get(table)
            if its is None:
                raise UnknownLog(f"{name}/{table}" if table else name)
            if its.wants is None:
                raise BadInput(f"nothing of {its.name} waits for approval; see: sexton binlog list")
            seen = its.wants if upto is None else min(upto, its.wants)
            values = {"approved": seen, "wants": None, "wants_since": None}
            c.execute(update(t).where(rows.one(t, instance, (name, table))).values(**values))
            return its.model_copy(update=values)

    def drop(self, instance: str, name: str, table: str = "") -> int:
        """Say that a table, or a database, is dropped for good: nobody needs its binlogs; repeatable.

        Its records go, its consumers hold nothing, and its replicas count no more: all that backends have of it goes
        with their next pull, however long another backend has been dead. Returns how many of them there are. Cut off
        in between, say it again.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(name, table)
        db, t, consumer = self._db, self._db.t.binlog_log, self._db.t.binlog_consumer
        with deciding(db, instance) as c:
            now = db.now(c)
            ensure(db, c, instance, name, table)
            found = rows.logs(db, c, instance, name, lock=True)
            goes = [its for its in found.values() if its.dropped_at is None and (not table or its.tbl == table)]
            of = [t.c.tbl == table] if table else []
            mine = and_(t.c.instance == instance, t.c.db == name, t.c.dropped_at.is_(None), *of)
            gone = {"watermark": MOST, "held": {}, "held_since": None, "wants": None, "wants_since": None}
            c.execute(update(t).where(mine).values(dropped_at=now, **gone))
            who = [consumer.c.tbl == table] if table else []
            c.execute(delete(consumer).where(consumer.c.instance == instance, consumer.c.db == name, *who))
            fold = self._db.t.binlog_fold
            part = [fold.c.tbl == table] if table else []
            c.execute(delete(fold).where(fold.c.instance == instance, fold.c.db == name, *part))
            if goes:
                tables = tuple(sorted(its.tbl for its in goes if its.tbl))
                last = max(its.last_seq for its in goes)
                tombstone = Tombstone(database=not table, db=name, tables=tables, seq=last, dropped=True)
                self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog([tombstone]))
        return self._let_go(instance, name, table)

    def _let_go(self, instance: str, name: str, table: str) -> int:
        """Ask copies for everything, some thousands at a time: a copy that has answered has nothing more to do."""
        t = self._db.t.replica
        whose = [t.c.tbl == table] if table else []
        mine = and_(t.c.instance == instance, t.c.db == name, t.c.dropped.is_(False), *whose)
        while True:
            with deciding(self._db, instance) as c:
                some = select(t.c.uid, t.c.backend).where(mine).limit(COPIES_AT_ONCE).subquery()
                same = and_(t.c.instance == instance, t.c.uid == some.c.uid, t.c.backend == some.c.backend)
                gone = {"dropped": True, "desired": MOST, "granted": MOST}
                m = len(c.execute(update(t).where(same).values(**gone).returning(t.c.uid)).all())
                if m < COPIES_AT_ONCE:
                    every = and_(t.c.instance == instance, t.c.db == name, *whose)
                    return int(c.execute(select(func.count()).select_from(t).where(every)).scalar_one())


def ensure(db: Database, c: Connection, instance: str, name: str, table: str = "") -> None:
    """Make the row of a database's own log, and of a table's, where it is not there yet."""
    t, state = db.t.binlog_log, db.t.binlog_round
    c.execute(upsert(db, t).values(instance=instance, db=name, tbl="").on_conflict_do_nothing())
    if table:
        # Of a table that nobody has named before, nothing is in any log so far.
        floor = case((t.c.watermark > t.c.begins, t.c.watermark), else_=t.c.begins)
        begins = select(case((t.c.enabled, floor), else_=t.c.last_seq)).where(rows.one(t, instance, (name, "")))
        new = upsert(db, t).values(instance=instance, db=name, tbl=table, begins=begins.scalar_subquery())
        c.execute(new.on_conflict_do_nothing())
    c.execute(upsert(db, state).values(instance=instance).on_conflict_do_nothing())


def _late(its: Log, own: Log, table: str, from_seq: int) -> bool:
    """Tell whether a log lacks records, when this one (a database's: with all its tables) is kept from now on."""
    mine = its.tbl == table or (not table and its.dropped_at is None)
    return mine and (from_seq > own.last_seq or its.skipped > its.floor) and not (table and own.enabled)


def check_names(name: str, *others: str) -> None:
    """Refuse what is no id of a database, and what is neither one of a table nor empty."""
    check_text(name, *others)
    for its in (name, *others):
        if len(its) > 128 or not its.isprintable():
            raise BadInput(f"{its[:40]!r} is no id: up to 128 printable characters")
    if not name:
        raise BadInput("name a database")
