"""Number the records of a database: their timestamps, and their ordinals and byte offsets in every log. Pure.

A cut later finds its position by these numbers alone, without counting rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sexton.replication.binlog.model import Log, StoredRecord, StoreResult
from sexton.replication.binlog.policy import Versions, effective_timestamp
from sexton.replication.errors import OutOfOrder

NO_TABLE = ""
"""The ``tbl`` of a record that names no table: it is then a record of the database's own log alone."""

Row = dict[str, Any]


class LogStates(NamedTuple):
    """The logs of one database before records are stored. ``tables``: those of the named tables that have a row."""

    own_log: Log
    tables: Mapping[str, Log]

    def storing(self, record: StoredRecord) -> list[Log]:
        """Return the logs that store a record: the database's own, or those of its tables; empty: no log stores it."""
        if self.own_log.dropped_at is not None:
            return []
        if self.own_log.enabled:
            return [self.own_log]
        table_logs = (self.tables.get(table) for table in dict.fromkeys(record.tables))
        return [log for log in table_logs if log is not None and log.enabled and log.dropped_at is None]

    def tables_with(self, record: StoredRecord) -> list[str]:
        """Return the tables whose logs include a record that is stored: all named ones if the database has a log."""
        if not self.own_log.enabled:
            return [log.tbl for log in self.storing(record)]
        named, logs = dict.fromkeys(record.tables), self.tables
        return [table for table in named if table not in logs or logs[table].dropped_at is None]

    def tables_without(self, record: StoredRecord) -> list[str]:
        """Return the named tables whose disabled logs will lack a record."""
        if self.own_log.enabled:
            return []
        return [table for table in record.tables if table in self.tables and not self.tables[table].enabled]


class LogEnd(NamedTuple):
    """The end of a log: how many records and bytes were ever stored in it."""

    records: int = 0
    bytes: int = 0

    def after(self, size: int) -> "LogEnd":
        """Return the end of the log after one more record."""
        return LogEnd(self.records + 1, self.bytes + size)

    def position(self) -> Row:
        """Return the columns that say where the next record is in the log."""
        return {"ordinal": self.records + 1, "bytes_before": self.bytes}


class NumberedRecords(NamedTuple):
    """The rows to insert, by table."""

    records: list[Row]
    """Of ``binlog``: one per record that some log stores."""
    table_records: list[Row]
    """Of ``binlog_table_record``: one per stored record and table."""
    versions: list[Row]
    """Of ``binlog_partition_version``: one per UPSERT, table and partition."""
    logs: list[Row]
    """Of ``binlog_log``: the new state of the database's log and of every log of a named table."""


def number_records(
    records: Sequence[StoredRecord], logs: LogStates, versions: Mapping[int, Versions], now: int
) -> NumberedRecords:
    """Number new records in every log that stores them.

    ``records``: at least one, in the order of their commit_seq, all above the database's last one. ``versions``: by
    commit_seq the versions that each record created. ``now``: ms since 1970.
    """
    numbered = NumberedRecords([], [], [], [])
    database: Row = {"instance": logs.own_log.instance, "db": logs.own_log.db}
    ends = {log.tbl: LogEnd(log.records, log.bytes) for log in (logs.own_log, *logs.tables.values())}
    skipped: dict[str, int] = {}
    timestamp = logs.own_log.last_ts
    for record in records:
        timestamp = effective_timestamp(record, timestamp, now)
        skipped |= dict.fromkeys(logs.tables_without(record), record.commit_seq)
        if logs.storing(record):
            tables, size = logs.tables_with(record), len(record.data.encode())
            key = database | {"seq": record.commit_seq}
            for table in tables or [NO_TABLE]:
                numbered.table_records.append(key | {"tbl": table} | ends.get(table, LogEnd()).position())
            columns = {"ts": timestamp, "sent_ts": record.timestamp, "type": record.type, "data": record.data}
            columns |= {"tables": list(record.tables), "bytes": size}
            numbered.records.append(key | columns | ends[NO_TABLE].position())
            for table, partitions in versions[record.commit_seq].items():
                for partition, version in partitions.items() if table in tables else ():
                    numbered.versions.append(key | {"tbl": table, "part": partition, "version": version})
            for table in dict.fromkeys((NO_TABLE, *tables)):
                ends[table] = ends.get(table, LogEnd()).after(size)
    last_seq = records[-1].commit_seq
    if not logs.own_log.enabled:
        skipped[NO_TABLE] = last_seq
    state = database | {"last_seq": last_seq, "last_ts": timestamp, "starts_after": logs.own_log.floor}
    for table, end in ends.items():
        counts = {"records": end.records, "bytes": end.bytes, "skipped": skipped.get(table, 0)}
        numbered.logs.append(state | {"tbl": table} | counts)
    return numbered


def judge_resent(
    records: Sequence[StoredRecord], logs: LogStates, stored: Mapping[int, tuple[str, str]]
) -> StoreResult:
    """Return why records up to the database's last one need not be stored.

    ``records``: as they were sent, none above the last one. ``stored``: (type, data) by commit_seq, of those that are
    stored.

    Raises:
        OutOfOrder: a record differs from the stored one, or was never stored although a log should have it.
    """
    known = old = disabled = 0
    for record in records:
        storing = logs.storing(record)
        if record.commit_seq in stored:
            if stored[record.commit_seq] != (record.type, record.data):
                raise OutOfOrder(
                    f"record {record.commit_seq} of {logs.own_log.db} is stored already with another type or data: "
                    "a commit_seq is used once"
                )
            known += 1
        elif not storing:
            disabled += 1
        elif all(record.commit_seq <= log.floor for log in storing):
            old += 1
        else:
            raise OutOfOrder(
                f"record {record.commit_seq} of {logs.own_log.db} came after {logs.own_log.last_seq}, and was never "
                "stored: send records in the order of their commit_seq, one writer after another"
            )
    return StoreResult(known=known, old=old, disabled=disabled)
