"""Cut one database's binlogs: what has expired goes, as far as consumers let it. One deciding transaction.

In it are read: the configuration, the consumers, and what has expired; and written: how far each log is gone, up to
which version each partition's binlogs may go from the backends, and the entry of the journal that says so. A crash
leaves all of it or nothing. The rows themselves are removed later (``removing``), and replicas are told (``sending``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Table, and_, case, func, literal, select, true, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list, upsert
from sexton.kernel.crash_points import reached
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import MOST, BinlogSettings, Bounds, Consumer, Cut, CutReport, Log
from sexton.replication.binlog.sql import rows
from sexton.replication.journal.model import Op, Tombstone, gc_binlog
from sexton.replication.journal.store import JournalStore

RECORDS_AT_ONCE = 10_000
"""In one transaction; nobody waits for long while it decides."""


class _Seen(NamedTuple):
    """The last record of a log that may go: its number, and how many of the log go with it."""

    seq: int
    goes: int


class CutPreview(NamedTuple):
    """A log, what a cut would do to it, and what of it has expired, if anything has."""

    log: Log
    cut: Cut
    expired: _Seen | None


class Cutter:
    """Cuts."""

    def __init__(self, db: Database, terms: BinlogSettings, controls: ControlStore) -> None:
        self._db, self._terms, self._controls = db, terms, controls
        self._journal = JournalStore(db)

    def cut(self, instance: str, name: str, tables: Sequence[str]) -> CutReport:
        """Cut some logs of a database, by some thousands of records: there may be more to do at once.

        Args:
            instance: whose database.
            name: of the database.
            tables: whose logs; of a database that has a log itself it is that one that is cut, with all tables.

        Raises:
            UnknownInstance: no such instance.
            NotEnabled, Halted: nothing of it may go.
        """
        db = self._db
        with deciding(db, instance) as c:
            reached("binlog.guarded")
            self._controls.check_in(c, instance)
            now = db.now(c)
            found_ = rows.logs(db, c, instance, name, tables, lock=True)
            logs = {tbl: its for tbl, its in found_.items() if not its.dropped_at}
            own = logs.get("")
            if own is None:
                return CutReport()
            readers = self._readers(c, own, now)
            report, tombstones = CutReport(lost=self._lose(c, instance, name, now)), []
            for its in [own] if own.enabled else [logs[tbl] for tbl in tables if tbl and tbl in logs]:
                found = self._some(c, its, self._note(c, self._look(c, its, own, readers, now), now))
                report += _counted(its, found)
                if found.seq > its.watermark:
                    cut = self._tables(c, its, found.seq) if own.enabled else [its.tbl]
                    tombstones.append(Tombstone(database=own.enabled, db=name, tables=tuple(cut), seq=found.seq))
                    self._fold(c, instance, name, found.seq, cut)
                    report += CutReport(records=self._gone(c, its, found.seq, cut), more=found.more)
            if not own.enabled:
                self._leave(c, own, now)
            if tombstones:
                self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog(tombstones))
            reached("binlog.written")
        reached("binlog.committed")
        return report

    def _lose(self, c: Connection, instance: str, name: str, now: int) -> int:
        """Let nothing be held any more by who has been silent for too long; return how many those are."""
        t, n = self._db.t.binlog_consumer, 0
        for its in self._silent(c, instance, rows.consumers(self._db, c, instance, name), now):
            mine = and_(rows.one(t, instance, (its.db, its.tbl)), t.c.name == its.name)
            n += c.execute(update(t).where(mine).values(lost_at=now)).rowcount
        return n

    def _silent(self, c: Connection, instance: str, every: Sequence[Consumer], now: int) -> Sequence[Consumer]:
        """Return who has been silent for too long; nobody, where nobody would have heard them all that time."""
        silent = policy.lost(every, now, self._terms)
        return silent if silent and rows.patient(self._db, c, instance, self._terms.hold_limit_seconds) else []

    def look(self, c: Connection, instance: str, name: str, table: str = "") -> Iterator[CutPreview]:
        """Yield what a cut of a database would do now, log by log; nothing is written.

        Args:
            c: a transaction that sees one moment.
            instance: whose database.
            name: of the database.
            table: only the log that this table is cut with; empty: all.
        """
        now = self._db.now(c)
        logs = {tbl: its for tbl, its in rows.logs(self._db, c, instance, name).items() if not its.dropped_at}
        own = logs.get("")
        if own is not None:
            readers = self._readers(c, own, now)
            chosen = [its for its in _cut_now(logs) if own.enabled or table in ("", its.tbl)]
            yield from (self._look(c, its, own, readers, now) for its in chosen)

    def within(self, c: Connection, its: Log, upto: int) -> int:
        """Return how many records a log has up to a number."""
        last = self._last(c, its, upto)
        return 0 if last is None else last.goes

    def _readers(self, c: Connection, own: Log, now: int) -> Sequence[Consumer]:
        """Return who may hold something, each with the last record before the first that it lacks."""
        every = rows.consumers(self._db, c, own.instance, own.db)
        silent = self._silent(c, own.instance, every, now)
        here = [r for r in every if r.lost_at is None and r not in silent]
        return [self._needs(c, r) if own.enabled and r.tbl else r for r in here]

    def _needs(self, c: Connection, reader: Consumer) -> Consumer:
        """Return who reads one table: of the database's log it needs only what is of that table."""
        of = self._db.t.binlog_of
        its = and_(rows.one(of, reader.instance, (reader.db, reader.tbl)), of.c.seq > reader.acked)
        first = c.execute(select(of.c.seq).where(its).order_by(of.c.seq).limit(1)).scalar_one_or_none()
        return reader.model_copy(update={"acked": MOST if first is None else first - 1})

    def _look(self, c: Connection, its: Log, own: Log, readers: Sequence[Consumer], now: int) -> CutPreview:
        """Return up to where a log goes."""
        log = its if its.enabled else its.model_copy(update=self._left(its, own))
        who = [r for r in readers if own.enabled or r.tbl == its.tbl]
        kept = policy.bounds(log, now)
        seen = None if kept.all else self._expired(c, log, kept)
        found = Cut(seq=its.watermark) if seen is None else policy.cut(log, seen.seq, seen.goes, who, self._terms)
        if found.seq > its.watermark and self._last(c, its, found.seq) is None:
            found = found.model_copy(update={"seq": its.watermark})  # between two records there is nothing to cut
        return CutPreview(its, found, seen)

    def _left(self, its: Log, own: Log) -> dict[str, Any]:
        """Return how long what is left of a log stays that nobody keeps any more: nobody can read it."""
        ttls = [t for t in (its.ttl_seconds, own.ttl_seconds, self._terms.hold_limit_seconds) if t is not None]
        return {"ttl_seconds": ttls[0], "max_bytes": None, "max_history_nums": None}

    def _note(self, c: Connection, looked: CutPreview, now: int) -> Cut:
        """Note who holds a log, and what waits; return up to where it goes."""
        t, its, found = self._db.t.binlog_log, looked.log, looked.cut
        values: dict[str, Any] = {"held": found.held, "wants": found.wants}
        values |= {"held_since": (its.held_since or now) if found.held else None}
        values |= {"wants_since": (its.wants_since or now) if found.wants is not None else None}
        if values != its.model_dump(include=set(values)):
            c.execute(update(t).where(rows.one(t, its.instance, (its.db, its.tbl))).values(**values))
        return found

    def _some(self, c: Connection, its: Log, found: Cut) -> Cut:
        """Return as much of a cut as goes at once."""
        if found.seq == its.watermark or self.within(c, its, found.seq) <= RECORDS_AT_ONCE:
            return found
        of = self._of(its)
        first = of.c.n <= its.gone_records + RECORDS_AT_ONCE
        last = c.execute(select(of.c.seq).where(first).order_by(of.c.seq.desc()).limit(1)).scalar_one()
        return found.model_copy(update={"seq": last, "more": True})

    def _expired(self, c: Connection, its: Log, kept: Bounds) -> _Seen | None:
        """Return the last record before the first that is kept; None where that is the first of all.

        Read from the beginning of the log: what is looked at is what goes, whatever else there is.
        """
        of = self._of(its)
        stays = [of.c.n > kept.after_n, of.c.bytes_before >= kept.from_byte]
        stays += [] if kept.after_ts is None else [of.c.ts > kept.after_ts]
        first = c.execute(select(of.c.seq).where(*stays).order_by(of.c.seq).limit(1)).scalar_one_or_none()
        return self._last(c, its, None if first is None else first - 1)

    def _last(self, c: Connection, its: Log, upto: int | None) -> _Seen | None:
        """Return the last record of a log up to a number (None: of all) that is there; None where none is."""
        of = self._of(its)
        below = true() if upto is None else of.c.seq <= upto
        row = c.execute(select(of.c.seq, of.c.n).where(below).order_by(of.c.seq.desc()).limit(1)).one_or_none()
        return None if row is None else _Seen(row.seq, row.n - its.gone_records)

    def _of(self, its: Log) -> FromClause:
        """Return the records of a log that are there: seq, n, bytes_before, ts."""
        b, of = self._db.t.binlog, self._db.t.binlog_of
        if not its.tbl:
            here = and_(b.c.instance == its.instance, b.c.db == its.db, b.c.seq > its.watermark)
            return select(b.c.seq, b.c.n, b.c.bytes_before, b.c.ts).where(here).subquery()
        same = and_(of.c.instance == b.c.instance, of.c.db == b.c.db, of.c.seq == b.c.seq)
        here = and_(rows.one(of, its.instance, (its.db, its.tbl)), of.c.seq > its.watermark)
        return select(of.c.seq, of.c.n, of.c.bytes_before, b.c.ts).join_from(of, b, same).where(here).subquery()

    def _tables(self, c: Connection, its: Log, seq: int) -> Sequence[str]:
        """Return the tables of which something is cut with their database's log."""
        of = self._db.t.binlog_of
        here = and_(of.c.instance == its.instance, of.c.db == its.db, of.c.seq <= seq, of.c.tbl != "")
        return list(c.execute(select(of.c.tbl).where(here).distinct().order_by(of.c.tbl)).scalars())

    def _fold(self, c: Connection, instance: str, name: str, seq: int, tables: Sequence[str]) -> None:
        """Raise up to which version partitions may go: by *every* UPSERT that expired, not by the last one."""
        part, fold = self._db.t.binlog_part, self._db.t.binlog_fold
        here = and_(part.c.instance == instance, part.c.db == name, in_list(self._db, part.c.tbl, tables))
        key = [part.c.instance, part.c.db, part.c.tbl, part.c.part]
        most = select(*key, func.max(part.c.version), literal(False)).where(here, part.c.seq <= seq).group_by(*key)
        new = upsert(self._db, fold).from_select(["instance", "db", "tbl", "part", "version", "spread"], most)
        raised = {"version": new.excluded.version, "spread": False}
        higher = {"set_": raised, "where": new.excluded.version > fold.c.version}
        c.execute(new.on_conflict_do_update(index_elements=["instance", "db", "tbl", "part"], **higher))

    def _gone(self, c: Connection, its: Log, seq: int, tables: Sequence[str]) -> int:
        """Move the watermarks, of tables to their own last record that goes; return how many records of the log go."""
        t, b, of, now = self._db.t.binlog_log, self._db.t.binlog, self._db.t.binlog_of, self._db.now(c)
        here = and_(t.c.instance == its.instance, t.c.db == its.db)
        if not its.tbl:
            mine = and_(b.c.instance == t.c.instance, b.c.db == t.c.db)
            values = self._moved(b, mine, seq)
            c.execute(update(t).where(here, t.c.tbl == "").values(**values, cut_at=now))
        mine = and_(of.c.instance == t.c.instance, of.c.db == t.c.db, of.c.tbl == t.c.tbl)
        values = self._moved(of, mine, seq)
        c.execute(update(t).where(here, in_list(self._db, t.c.tbl, tables)).values(**values, cut_at=now))
        left = c.execute(select(t.c.gone_records).where(rows.one(t, its.instance, (its.db, its.tbl)))).scalar_one()
        return int(left) - its.gone_records

    def _moved(self, its: Table, mine: ColumnElement[bool], seq: int) -> dict[str, Any]:
        """Return what becomes of the row of a log that is cut up to a record, by the records that it has."""
        t = self._db.t.binlog_log
        last = select(func.max(its.c.seq)).where(mine, its.c.seq <= seq).scalar_subquery()
        first = select(its.c.n - 1).where(mine, its.c.seq > seq).order_by(its.c.seq).limit(1)
        size = first.with_only_columns(its.c.bytes_before).scalar_subquery()
        return {
            "watermark": case((last > t.c.watermark, last), else_=t.c.watermark),
            "gone_records": func.coalesce(first.scalar_subquery(), t.c.records),
            "gone_bytes": func.coalesce(size, t.c.bytes),
        }

    def _leave(self, c: Connection, own: Log, now: int) -> None:
        """Let go of what a database's log left when it was disabled: records that are in no table's log any more."""
        t, kept = self._db.t.binlog_log, policy.bounds(own.model_copy(update=self._left(own, own)), now)
        seen = self._expired(c, own, Bounds(after_ts=kept.after_ts))
        if seen is not None:
            c.execute(update(t).where(rows.one(t, own.instance, (own.db, ""))).values(watermark=seen.seq))


def _cut_now(logs: Mapping[str, Log]) -> Sequence[Log]:
    """Return the logs that are cut: the database's, or where it has none those of its tables."""
    own = logs[""]
    return [own] if own.enabled else [its for tbl, its in logs.items() if tbl]


def _counted(its: Log, found: Cut) -> CutReport:
    """Return the report of one log."""
    cut, held = found.seq > its.watermark, bool(found.held)
    return CutReport(logs=1, cut=cut, held=held, waiting=found.wants is not None)
