"""Cut the logs of one database: expired records, as far as no consumer blocks it. One deciding transaction per cut.

The transaction reads the configuration, the consumers and the expired records. It writes the new watermark of each
log, the version up to which backends may delete each partition's binlogs, and the journal entry. After a crash either
all of it is there or nothing. Rows of records that are in no log any longer are deleted later (``Remover``),
a few thousand per transaction, and backends pull their cuts (``sending.py``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Table,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import (
    MAX_COMMIT_SEQ,
    BinlogSettings,
    Consumer,
    Cut,
    CutReport,
    Log,
    LogCutPreview,
    RetentionBounds,
)
from sexton.replication.binlog.sql import rows
from sexton.replication.journal.model import Op, Tombstone, gc_binlog
from sexton.replication.journal.store import JournalStore
from sexton.replication.log_rows import log_condition

RECORDS_AT_ONCE = 10_000
"""Per transaction, so that no other transaction waits for the guard for long."""


class RecordRange(NamedTuple):
    """The first records of a log that are not cut: the number of the last of them, and how many they are."""

    seq: int
    records: int


class Cutter:
    """Cuts logs."""

    def __init__(self, db: Database, settings: BinlogSettings, controls: ControlStore) -> None:
        self._db, self._settings, self._controls = db, settings, controls
        self._journal = JournalStore(db)

    def cut(self, instance: str, name: str, tables: Sequence[str]) -> CutReport:
        """Cut some logs of a database by at most some thousands of records each; ``more`` tells whether some are left.

        ``tables``: whose logs are cut; an enabled log of the database is cut instead, with all tables.

        Raises:
            UnknownInstance: no such instance.
            NotEnabled, Halted: the controls of the instance forbid deletion.
        """
        db, t = self._db, self._db.t.binlog_consumer
        with deciding(db, instance) as c:
            reached("binlog.guarded")
            self._controls.check_in(c, instance)
            now = db.now(c)
            logs = _without_dropped(rows.read_logs(db, c, instance, name, tables, lock=True))
            own_log = logs.get("")
            if own_log is None:
                return CutReport()
            readers, silent = self._blocking_and_silent(c, own_log, now)
            for reader in silent:
                this_reader = and_(log_condition(t, instance, (reader.db, reader.tbl)), t.c.name == reader.name)
                c.execute(update(t).where(this_reader).values(lost_at=now))
            report, tombstones = CutReport(lost=len(silent)), list[Tombstone]()
            for log in [own_log] if own_log.enabled else [logs[table] for table in tables if table and table in logs]:
                cut = self._decide(c, log, own_log, readers, now)
                is_cut, is_held = cut.seq > log.watermark, bool(cut.held)
                report += CutReport(logs=1, cut=is_cut, held=is_held, waiting=cut.awaiting_seq is not None)
                if is_cut:
                    cut_tables = [log.tbl] if log.tbl else self._tables_upto(c, log, cut.seq)
                    self._raise_partition_cuts(c, log, cut.seq, cut_tables)
                    records = self._move_watermarks(c, log, cut.seq, cut_tables)
                    whole = not log.tbl
                    tombstones.append(Tombstone(database=whole, db=log.db, tables=tuple(cut_tables), seq=cut.seq))
                    report += CutReport(records=records, more=cut.more)
            if not own_log.enabled:
                self._cut_leftovers(c, own_log, now)
            if tombstones:
                self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog(tombstones))
            reached("binlog.written")
        reached("binlog.committed")
        return report

    def preview(self, c: Connection, instance: str, name: str, table: str = "") -> Iterator[LogCutPreview]:
        """Yield log by log what a cut of a database would do now; write nothing. The transaction sees one moment.

        ``table``: only the log with which this table is cut; empty: all.
        """
        now = self._db.now(c)
        logs = _without_dropped(rows.read_logs(self._db, c, instance, name))
        own_log = logs.get("")
        if own_log is None:
            return
        readers, _ = self._blocking_and_silent(c, own_log, now)
        for log in [own_log] if own_log.enabled else [log for tbl, log in logs.items() if tbl]:
            if own_log.enabled or table in ("", log.tbl):
                cut, expired = self._next_cut(c, log, own_log, readers, now)
                wants = cut.awaiting_seq if log.awaiting_seq is None else log.awaiting_seq
                yield LogCutPreview(
                    log=log,
                    cut=cut,
                    expired=expired,
                    goes=self._count_upto(c, log, cut.seq) if cut.seq > log.watermark else 0,
                    waits=0 if wants is None else self._count_upto(c, log, wants),
                )

    def _count_upto(self, c: Connection, log: Log, seq: int) -> int:
        """Return how many records a log has up to a number."""
        first_records = _records_upto(self._db, c, log, seq)
        return 0 if first_records is None else first_records.records

    def _blocking_and_silent(
        self, c: Connection, own_log: Log, now: int
    ) -> tuple[Sequence[Consumer], Sequence[Consumer]]:
        """Return the consumers that may block a cut, and those that were silent for too long.

        ``acked`` of the former is raised to the record before the first one they lack. None is silent if Sexton itself
        was away during that time.
        """
        consumers = rows.read_consumers(self._db, c, own_log.instance, own_log.db)
        silent = policy.silent_consumers(consumers, now, self._settings)
        if silent and not rows.steady_for(self._db, c, own_log.instance, self._settings.hold_limit_seconds):
            silent = []
        position, blocking = self._db.t.binlog_table_record, list[Consumer]()
        for reader in consumers:
            if reader.lost_at is not None or reader in silent:
                continue
            if own_log.enabled and reader.tbl:  # of the database's log it needs only the records of its table
                log = log_condition(position, reader.instance, (reader.db, reader.tbl))
                lacking = select(position.c.seq).where(log, position.c.seq > reader.acked).order_by(position.c.seq)
                first = c.execute(lacking.limit(1)).scalar_one_or_none()
                reader = reader.model_copy(update={"acked": MAX_COMMIT_SEQ if first is None else first - 1})
            blocking.append(reader)
        return blocking, silent

    # Decide how far one log is cut

    def _decide(self, c: Connection, log: Log, own_log: Log, readers: Sequence[Consumer], now: int) -> Cut:
        """Return the part of a log's next cut that is made in one transaction, and record what blocks the rest."""
        cut, _ = self._next_cut(c, log, own_log, readers, now)
        t = self._db.t.binlog_log
        values: dict[str, Any] = {
            "held": cut.held,
            "awaiting_seq": cut.awaiting_seq,
            "held_since": (log.held_since or now) if cut.held else None,
            "awaiting_since": (log.awaiting_since or now) if cut.awaiting_seq is not None else None,
        }
        if values != log.model_dump(include=set(values)):
            c.execute(update(t).where(log_condition(t, log.instance, (log.db, log.tbl))).values(**values))
        if cut.seq == log.watermark or self._count_upto(c, log, cut.seq) <= RECORDS_AT_ONCE:
            return cut
        remaining = _remaining_records(self._db, log)
        first_records = remaining.c.ordinal <= log.gone_records + RECORDS_AT_ONCE
        last = select(remaining.c.seq).where(first_records).order_by(remaining.c.seq.desc()).limit(1)
        return cut.model_copy(update={"seq": int(c.execute(last).scalar_one()), "more": True})

    def _next_cut(
        self, c: Connection, log: Log, own_log: Log, readers: Sequence[Consumer], now: int
    ) -> tuple[Cut, int]:
        """Return a log's next cut, and how many of its records have expired."""
        configured = log if log.enabled else self._with_leftover_ttl(log, own_log)
        bounds = policy.retention_bounds(configured, now)
        expired = _expired_records(self._db, c, configured, bounds)
        if expired is None:
            return Cut(seq=log.watermark), 0
        log_readers = [reader for reader in readers if own_log.enabled or reader.tbl == log.tbl]
        cut = policy.decide_cut(configured, expired.seq, expired.records, log_readers, self._settings)
        if cut.seq > log.watermark and _records_upto(self._db, c, log, cut.seq) is None:
            cut = cut.model_copy(update={"seq": log.watermark})  # no record lies between the watermark and the cut
        return cut, expired.records

    def _with_leftover_ttl(self, log: Log, own_log: Log) -> Log:
        """Return a disabled log with the TTL by which its remaining records expire; no consumer can read them."""
        ttls = (log.ttl_seconds, own_log.ttl_seconds, self._settings.hold_limit_seconds)
        ttl_seconds = next(seconds for seconds in ttls if seconds is not None)
        return log.model_copy(update={"ttl_seconds": ttl_seconds, "max_bytes": None, "max_history_nums": None})

    # Write the cut

    def _tables_upto(self, c: Connection, log: Log, seq: int) -> Sequence[str]:
        """Return the tables that have records up to a number in their database's log."""
        position = self._db.t.binlog_table_record
        cut = and_(
            position.c.instance == log.instance, position.c.db == log.db, position.c.seq <= seq, position.c.tbl != ""
        )
        return list(c.execute(select(position.c.tbl).where(cut).distinct().order_by(position.c.tbl)).scalars())

    def _raise_partition_cuts(self, c: Connection, log: Log, seq: int, tables: Sequence[str]) -> None:
        """Raise the version up to which partitions may be deleted: the highest of *every* cut UPSERT, not the last."""
        part, fold = self._db.t.binlog_partition_version, self._db.t.binlog_partition_cut
        cut = and_(part.c.instance == log.instance, part.c.db == log.db, in_list(part.c.tbl, tables))
        key = [part.c.instance, part.c.db, part.c.tbl, part.c.part]
        highest = select(*key, func.max(part.c.version), literal(False)).where(cut, part.c.seq <= seq).group_by(*key)
        new = upsert(fold).from_select(["instance", "db", "tbl", "part", "version", "propagated"], highest)
        raised = {"version": new.excluded.version, "propagated": False}
        higher, key_columns = new.excluded.version > fold.c.version, ["instance", "db", "tbl", "part"]
        c.execute(new.on_conflict_do_update(index_elements=key_columns, set_=raised, where=higher))

    def _move_watermarks(self, c: Connection, log: Log, seq: int, tables: Sequence[str]) -> int:
        """Move the watermarks, a table's to its own last cut record; return how many records of ``log`` were cut."""
        t, b, position, now = self._db.t.binlog_log, self._db.t.binlog, self._db.t.binlog_table_record, self._db.now(c)
        of_database = and_(t.c.instance == log.instance, t.c.db == log.db)
        if not log.tbl:
            in_log = and_(b.c.instance == t.c.instance, b.c.db == t.c.db)
            values = self._state_after_cut(b, in_log, seq)
            c.execute(update(t).where(of_database, t.c.tbl == "").values(**values, cut_at=now))
        in_log = and_(position.c.instance == t.c.instance, position.c.db == t.c.db, position.c.tbl == t.c.tbl)
        values = self._state_after_cut(position, in_log, seq)
        c.execute(update(t).where(of_database, in_list(t.c.tbl, tables)).values(**values, cut_at=now))
        this_log = log_condition(t, log.instance, (log.db, log.tbl))
        cut_records = c.execute(select(t.c.gone_records).where(this_log)).scalar_one()
        return int(cut_records) - log.gone_records

    def _state_after_cut(self, records: Table, in_log: ColumnElement[bool], seq: int) -> dict[str, Any]:
        """Return the columns of a log's row after a cut, computed from its rows in ``records``."""
        t = self._db.t.binlog_log
        last_cut = select(func.max(records.c.seq)).where(in_log, records.c.seq <= seq).scalar_subquery()
        first_left = select(records.c.ordinal - 1).where(in_log, records.c.seq > seq).order_by(records.c.seq).limit(1)
        bytes_before = first_left.with_only_columns(records.c.bytes_before).scalar_subquery()
        return {
            "watermark": case((last_cut > t.c.watermark, last_cut), else_=t.c.watermark),
            "gone_records": func.coalesce(first_left.scalar_subquery(), t.c.records),
            "gone_bytes": func.coalesce(bytes_before, t.c.bytes),
        }

    def _cut_leftovers(self, c: Connection, own_log: Log, now: int) -> None:
        """Cut expired records of a database's disabled log: if they are in no table's log, no other cut finds them."""
        t, bounds = self._db.t.binlog_log, policy.retention_bounds(self._with_leftover_ttl(own_log, own_log), now)
        expired = _expired_records(self._db, c, own_log, RetentionBounds(after_ts=bounds.after_ts))
        if expired is not None:
            c.execute(
                update(t).where(log_condition(t, own_log.instance, (own_log.db, ""))).values(watermark=expired.seq)
            )


def _without_dropped(logs: Mapping[str, Log]) -> dict[str, Log]:
    return {table: log for table, log in logs.items() if not log.dropped_at}


def _expired_records(db: Database, c: Connection, log: Log, bounds: RetentionBounds) -> RecordRange | None:
    """Return the records before the first one that is retained; None if that is the first of all.

    The query reads from the beginning of the log, so its cost follows what has expired, not what exists.
    """
    remaining = _remaining_records(db, log)
    retained = [remaining.c.ordinal > bounds.after_n, remaining.c.bytes_before >= bounds.from_byte]
    if bounds.after_ts is not None:
        retained.append(remaining.c.ts > bounds.after_ts)
    first_retained = select(remaining.c.seq).where(*retained).order_by(remaining.c.seq).limit(1)
    seq = c.execute(first_retained).scalar_one_or_none()
    return _records_upto(db, c, log, None if seq is None else seq - 1)


def _records_upto(db: Database, c: Connection, log: Log, upto: int | None) -> RecordRange | None:
    """Return the records that are not cut, up to a number (None: all of them); None if there are none."""
    remaining = _remaining_records(db, log)
    in_range = true() if upto is None else remaining.c.seq <= upto
    last = select(remaining.c.seq, remaining.c.ordinal).where(in_range).order_by(remaining.c.seq.desc()).limit(1)
    row = c.execute(last).one_or_none()
    return None if row is None else RecordRange(row.seq, row.ordinal - log.gone_records)


def _remaining_records(db: Database, log: Log) -> FromClause:
    """Return the records of a log that are not cut: seq, ordinal, bytes_before, ts."""
    b, position = db.t.binlog, db.t.binlog_table_record
    if not log.tbl:
        not_cut = and_(b.c.instance == log.instance, b.c.db == log.db, b.c.seq > log.watermark)
        return select(b.c.seq, b.c.ordinal, b.c.bytes_before, b.c.ts).where(not_cut).subquery()
    same_record = and_(position.c.instance == b.c.instance, position.c.db == b.c.db, position.c.seq == b.c.seq)
    not_cut = and_(log_condition(position, log.instance, (log.db, log.tbl)), position.c.seq > log.watermark)
    columns = (position.c.seq, position.c.ordinal, position.c.bytes_before, b.c.ts)
    return select(*columns).join_from(position, b, same_record).where(not_cut).subquery()


ROWS_AT_ONCE = 5_000


class Remover:
    """Deletes rows of records. It can be interrupted anywhere and run again."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def remove(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Delete the rows below the watermarks; return how many (record, log) pairs were removed."""
        t, position, b = self._db.t.binlog_log, self._db.t.binlog_table_record, self._db.t.binlog
        in_log = and_(position.c.instance == t.c.instance, position.c.db == t.c.db, position.c.tbl == t.c.tbl)
        in_database = and_(b.c.instance == t.c.instance, b.c.db == t.c.db, t.c.tbl == "")
        # Not EXISTS: PostgreSQL may hash its table, that is read all of it.
        pair = select(position.c.seq).where(in_log, position.c.seq <= t.c.watermark).order_by(position.c.seq).limit(1)
        record = select(b.c.seq).where(in_database, b.c.seq <= t.c.watermark).order_by(b.c.seq).limit(1)
        has_rows = or_(pair.scalar_subquery().is_not(None), record.scalar_subquery().is_not(None))
        leftovers = select(t).where(t.c.instance == instance, has_rows).order_by(t.c.db)
        with self._db.read() as c:
            logs = [Log(**row._mapping) for row in c.execute(leftovers)]
        removed = 0
        for log in sorted(logs, key=lambda log: (log.db, log.tbl == "", log.tbl)):  # of each database its tables first
            while pairs := self._remove_chunk(log):
                removed += pairs
                reached("binlog.removed")
                heartbeat()
            if not log.tbl:
                self._remove_records_without_table(log, heartbeat)
        return removed

    def _remove_chunk(self, log: Log) -> int:
        """Remove some records from one log, and delete those that are in no other; return how many were removed."""
        position, part, b = self._db.t.binlog_table_record, self._db.t.binlog_partition_version, self._db.t.binlog
        key = (log.db, log.tbl)
        with self._db.write() as c:
            own_log = rows.lock_own_log(self._db, c, log.instance, log.db)  # it cannot be enabled meanwhile
            cut = and_(log_condition(position, log.instance, key), position.c.seq <= log.watermark)
            seqs = list(
                c.execute(select(position.c.seq).where(cut).order_by(position.c.seq).limit(ROWS_AT_ONCE)).scalars()
            )
            if not seqs:
                return 0
            c.execute(delete(position).where(log_condition(position, log.instance, key), position.c.seq <= seqs[-1]))
            c.execute(delete(part).where(log_condition(part, log.instance, key), part.c.seq <= seqs[-1]))
            removable = self._in_no_log(log, seqs)
            if own_log.enabled:
                removable &= b.c.seq <= own_log.watermark
            c.execute(delete(b).where(removable))
            return len(seqs)

    def _remove_records_without_table(self, own_log: Log, heartbeat: Callable[[], None]) -> None:
        """Delete records that only the database's log had: their tables are dropped, or were cut before."""
        b, after = self._db.t.binlog, -1
        of_database = and_(b.c.instance == own_log.instance, b.c.db == own_log.db)
        while True:
            with self._db.write() as c:
                cut = (
                    select(b.c.seq).where(of_database, b.c.seq > after, b.c.seq <= own_log.watermark).order_by(b.c.seq)
                )
                seqs = list(c.execute(cut.limit(ROWS_AT_ONCE)).scalars())
                if not seqs:
                    return
                c.execute(delete(b).where(self._in_no_log(own_log, seqs)))
                after = seqs[-1]
            heartbeat()

    def _in_no_log(self, log: Log, seqs: Sequence[int]) -> ColumnElement[bool]:
        """Return the condition that a record is one of these of a log's database, and in the log of no table."""
        b, position = self._db.t.binlog, self._db.t.binlog_table_record
        # Without statistics a planner filters by the list; then it reads no more than this range.
        in_range = and_(b.c.instance == log.instance, b.c.db == log.db, b.c.seq.between(seqs[0], seqs[-1]))
        of_database = and_(position.c.instance == b.c.instance, position.c.db == b.c.db)
        # An ordered range of one number, not EXISTS: its order leaves the planner only the index by number.
        same_record = and_(of_database, position.c.seq.between(b.c.seq, b.c.seq))
        in_a_log = select(position.c.seq).where(same_record).order_by(position.c.seq).limit(1).scalar_subquery()
        return and_(in_range, in_list(b.c.seq, seqs), in_a_log.is_(None))
