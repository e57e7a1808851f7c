"""Store records in the order of their numbers, as their owner commits them, and read them page by page."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, case, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.database.rows import as_rows, in_list
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MAX_NAMES, Log, RecordPage, StoredRecord, StoreResult
from sexton.replication.binlog.numbering import LogStates, NumberedRecords, judge_resent, number_records
from sexton.replication.binlog.policy import parse_versions
from sexton.replication.binlog.sql import rows
from sexton.replication.errors import RecordsTrimmed
from sexton.replication.sql.log_rows import check_names, ensure_log_rows

PAGE_RECORDS = 1_000
PAGE_BYTES = 8 << 20


class RecordStore:
    """The records of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, instance: str, name: str, records: Sequence[StoredRecord]) -> StoreResult:
        """Store records that a database committed. A record that is sent again changes nothing.

        Raises:
            UnknownInstance: no such instance.
            OutOfOrder: a record was never stored, and a later one was: a consumer of the later one would never see it.
            BadInput: a record is invalid, or appears twice; or the records name too many tables and partitions.
        """
        versions = {record.commit_seq: parse_versions(record) for record in records}
        check_text(*(text for record in records for text in (record.data, record.type)))
        records = [  # every table that a record created versions of is among its tables
            record.model_copy(update={"tables": tuple(dict.fromkeys((*record.tables, *versions[record.commit_seq])))})
            for record in records
        ]
        check_names(name, *(table for record in records for table in record.tables))
        if len(versions) < len(records):
            raise BadInput("a record appears twice: send each commit_seq once")
        names = sum(len(record.tables) for record in records)
        names += sum(len(partitions) for tables in versions.values() for partitions in tables.values())
        if len(records) > 1 and names > MAX_NAMES:
            raise BadInput(
                f"the records name {names:,} tables and partitions: send at most {MAX_NAMES:,} at once, in several "
                "requests"
            )
        t = self._db.t.instance.c
        with self._db.write() as c:
            if c.execute(select(t.id).where(t.id == instance)).first() is None:
                raise UnknownInstance(instance)
            ensure_log_rows(self._db, c, instance, name)
            own_log = rows.lock_own_log(self._db, c, instance, name)
            tables = {table for record in records for table in record.tables}
            table_logs = rows.read_logs(self._db, c, instance, name, tables)
            logs = LogStates(own_log, {tbl: log for tbl, log in table_logs.items() if tbl in tables})
            new = sorted((r for r in records if r.commit_seq > own_log.last_seq), key=lambda r: r.commit_seq)
            result = self._judge_resent(c, logs, [r for r in records if r.commit_seq <= own_log.last_seq])
            if not new:
                return result
            numbered = number_records(new, logs, versions, self._db.now(c))
            self._insert_numbered(c, numbered)
            stored = len(numbered.records)
            return result.model_copy(update={"stored": stored, "disabled": result.disabled + len(new) - stored})

    def read(self, instance: str, name: str, table: str = "", after: int = 0, limit: int = PAGE_RECORDS) -> RecordPage:
        """Return the records of a log after a number, in their order: at most a thousand, and some MiB.

        Raises:
            UnknownLog: the log does not exist or is not enabled.
            RecordsTrimmed: records after that number are cut.
        """
        with self._db.snapshot() as c:  # the watermark and the records above it, as of one moment
            log = rows.readable_log(rows.read_logs(self._db, c, instance, name, [table]), name, table)
            if after < log.floor:
                raise RecordsTrimmed(log.name, after, log.floor + 1)
            records = self._page(c, log, after, min(limit, PAGE_RECORDS))
        status = "OK" if records else "TOO_NEW"
        return RecordPage(status=status, first=log.floor + 1, last=log.last_seq, records=tuple(records))

    def _page(self, c: Connection, log: Log, after: int, limit: int) -> list[StoredRecord]:
        """Return records of a log after a number, at least one if there is any, and at most ``PAGE_BYTES`` in all."""
        b, position = self._db.t.binlog, self._db.t.binlog_table_record
        later = and_(b.c.instance == log.instance, b.c.db == log.db, b.c.seq > after)
        page = select(b.c.seq, b.c.sent_ts, b.c.type, b.c.tables, b.c.data, b.c.bytes).where(later)
        if log.tbl:
            same_record = and_(position.c.instance == b.c.instance, position.c.db == b.c.db, position.c.seq == b.c.seq)
            page = page.join(position, and_(same_record, position.c.tbl == log.tbl))
        records, size = list[StoredRecord](), 0
        for row in c.execute(page.order_by(b.c.seq).limit(limit)):
            size += row.bytes
            if records and size > PAGE_BYTES:
                break
            columns = {"timestamp": row.sent_ts, "tables": row.tables, "type": row.type, "data": row.data}
            records.append(StoredRecord(commit_seq=row.seq, **columns))
        return records

    def _judge_resent(self, c: Connection, logs: LogStates, records: Sequence[StoredRecord]) -> StoreResult:
        """Compare records that are not above the last one with the stored ones."""
        if not records:
            return StoreResult()
        b = self._db.t.binlog
        sent = in_list(b.c.seq, [record.commit_seq for record in records])
        condition = and_(b.c.instance == logs.own_log.instance, b.c.db == logs.own_log.db, sent)
        stored_rows = c.execute(select(b.c.seq, b.c.type, b.c.data).where(condition))
        return judge_resent(records, logs, {row.seq: (row.type, row.data) for row in stored_rows})

    def _insert_numbered(self, c: Connection, numbered: NumberedRecords) -> None:
        t = self._db.t
        if numbered.records:
            c.execute(insert(t.binlog), numbered.records)
        self._insert_at_once(c, t.binlog_table_record, numbered.table_records)
        self._insert_at_once(c, t.binlog_partition_version, numbered.versions)
        log = t.binlog_log
        new = upsert(log)
        later_skip = new.excluded.skipped > log.c.skipped
        changed: dict[str, ColumnElement[Any]] = {
            column: new.excluded[column] for column in ("records", "bytes", "last_seq", "last_ts")
        }
        changed["skipped"] = case((later_skip, new.excluded.skipped), else_=log.c.skipped)
        c.execute(new.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=changed), numbered.logs)

    def _insert_at_once(self, c: Connection, table: Table, data: Sequence[Mapping[str, Any]]) -> None:
        """Insert many small rows by one statement."""
        if data:
            types = {column: table.c[column].type for column in data[0]}
            new = as_rows(data, **types)
            c.execute(insert(table).from_select(list(types), select(*(new.c[column] for column in types))))
