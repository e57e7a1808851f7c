"""Find the first records of a log that are not cut yet: those that have expired, or those up to a number."""

from typing import NamedTuple

from sqlalchemy import Connection, FromClause, and_, select, true

from sexton.database.engine import Database
from sexton.replication.binlog.model import Log, RetentionBounds
from sexton.replication.sql.log_rows import log_condition


class RecordRange(NamedTuple):
    """The first records of a log that are not cut: the number of the last of them, and how many they are."""

    seq: int
    records: int


def expired_records(db: Database, c: Connection, log: Log, bounds: RetentionBounds) -> RecordRange | None:
    """Return the records before the first one that is retained; None if that is the first of all.

    The query reads from the beginning of the log, so its cost follows what has expired, not what exists.
    """
    remaining = _remaining_records(db, log)
    retained = [remaining.c.ordinal > bounds.after_n, remaining.c.bytes_before >= bounds.from_byte]
    if bounds.after_ts is not None:
        retained.append(remaining.c.ts > bounds.after_ts)
    first_retained = select(remaining.c.seq).where(*retained).order_by(remaining.c.seq).limit(1)
    seq = c.execute(first_retained).scalar_one_or_none()
    return records_upto(db, c, log, None if seq is None else seq - 1)


def records_upto(db: Database, c: Connection, log: Log, upto: int | None) -> RecordRange | None:
    """Return the records that are not cut, up to a number (None: all of them); None if there are none."""
    remaining = _remaining_records(db, log)
    in_range = true() if upto is None else remaining.c.seq <= upto
    last = select(remaining.c.seq, remaining.c.ordinal).where(in_range).order_by(remaining.c.seq.desc()).limit(1)
    row = c.execute(last).one_or_none()
    return None if row is None else RecordRange(row.seq, row.ordinal - log.gone_records)


def last_of_first(db: Database, c: Connection, log: Log, count: int) -> int:
    """Return the number of the last of the first ``count`` records that are not cut."""
    remaining = _remaining_records(db, log)
    first_records = remaining.c.ordinal <= log.gone_records + count
    last = select(remaining.c.seq).where(first_records).order_by(remaining.c.seq.desc()).limit(1)
    return int(c.execute(last).scalar_one())


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
