"""Store and read records in the order of their numbers, and hand cuts to backends, which pull.

A backend should delete up to ``desired``, may delete up to ``granted``, and has deleted up to ``acked``. When it asks
for a page, Sexton decides under the guard what it may delete: up to the cuts of the partition, and only versions that
no replica of the tablet still needs. A grant is never taken back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    Text,
    and_,
    case,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance, deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.replication.agent.model import ID, CutDone, GrantedCut, SweepOutcome
from sexton.replication.binlog.model import (
    MAX_COMMIT_SEQ,
    MAX_NAMES,
    AcknowledgeResult,
    CutPage,
    RecordPage,
    StoredRecord,
    StoreResult,
)
from sexton.replication.binlog.numbering import LogStates, NumberedRecords, judge_resent, number_records
from sexton.replication.binlog.policy import parse_versions
from sexton.replication.binlog.sql import rows
from sexton.replication.errors import RecordsTrimmed
from sexton.replication.log_rows import check_names, ensure_log_rows
from sexton.replication.replicas.sql.rows import needed_versions, record_released_versions

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
            b, position = self._db.t.binlog, self._db.t.binlog_table_record
            later = and_(b.c.instance == log.instance, b.c.db == log.db, b.c.seq > after)
            page = select(b.c.seq, b.c.sent_ts, b.c.type, b.c.tables, b.c.data, b.c.bytes).where(later)
            if log.tbl:
                same_record = and_(
                    position.c.instance == b.c.instance, position.c.db == b.c.db, position.c.seq == b.c.seq
                )
                page = page.join(position, and_(same_record, position.c.tbl == log.tbl))
            records, size = list[StoredRecord](), 0
            for row in c.execute(page.order_by(b.c.seq).limit(min(limit, PAGE_RECORDS))):
                size += row.bytes
                if records and size > PAGE_BYTES:  # the first one counts, however large
                    break
                columns = {"timestamp": row.sent_ts, "tables": row.tables, "type": row.type, "data": row.data}
                records.append(StoredRecord(commit_seq=row.seq, **columns))
        status = "OK" if records else "TOO_NEW"
        return RecordPage(status=status, first=log.floor + 1, last=log.last_seq, records=tuple(records))

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


PAGE_CUTS = 1_000
PARTITIONS_AT_ONCE = 100
QUEUE_MS = 7 * 86_400_000
"""A workflow notifies a backend's worker of cuts for this long after its last pull; later it must pull by itself."""
DETAIL_CHARACTERS = 500


class Sender:
    """Hands cuts to the backends of one deployment."""

    def __init__(self, db: Database, controls: ControlStore) -> None:
        self._db, self._controls = db, controls

    def propagate(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Record in the replicas what was cut of their partitions since the last run; return how many were changed.

        One statement per some hundred partitions, however many tablets they have. It decides nothing.
        """
        t, fold, changed = self._db.t.replica, self._db.t.binlog_partition_cut, 0
        partition = (fold.c.db, fold.c.tbl, fold.c.part)
        new = select(*partition).where(fold.c.instance == instance, fold.c.propagated.is_(False))
        while True:
            with deciding(self._db, instance) as c:
                some = c.execute(new.limit(PARTITIONS_AT_ONCE))
                keys = [{"name": row.db, "tbl": row.tbl, "part": row.part} for row in some]
                if not keys:
                    return changed
                chosen = as_rows(keys, name=Text(), tbl=Text(), part=Text())
                of_table = and_(fold.c.instance == instance, fold.c.db == chosen.c.name, fold.c.tbl == chosen.c.tbl)
                is_chosen = and_(of_table, fold.c.part == chosen.c.part)
                cut = select(*partition, fold.c.version).join_from(fold, chosen, is_chosen).subquery()
                same_partition = and_(t.c.instance == instance, *(t.c[n] == cut.c[n] for n in ("db", "tbl", "part")))
                lower = and_(same_partition, t.c.desired < cut.c.version, t.c.dropped.is_(False))
                replicas = c.execute(update(t).where(lower).values(desired=cut.c.version)).rowcount
                c.execute(update(fold).where(is_chosen).values(propagated=True))
                reached("binlog.spread")
            changed += max(0, replicas)
            heartbeat()

    def page(
        self, instance: str, backend: str, after: str = "", limit: int = PAGE_CUTS, *, queue: bool = False
    ) -> CutPage:
        """Grant what a backend may delete, for a page of its replicas.

        ``after``: only replicas whose uids sort after this one. ``limit``: how many replicas are checked; some of them
        may have to retain everything. ``queue``: whether a Sexton worker beside the backend pulls, which also serves a
        task queue. ``UnknownInstance``: no such instance.
        """
        check_names(backend, after)
        t, b = self._db.t.replica, self._db.t.backend
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            values = {"pulled_at": now} | ({"queue_at": now} if queue else {})
            pull = upsert(b).values(instance=instance, name=backend, **values)
            c.execute(pull.on_conflict_do_update(index_elements=["instance", "name"], set_=values))
            try:
                self._controls.check_in(c, instance)
            except (Halted, NotEnabled) as e:
                return CutPage(why=str(e))
            limit = max(1, min(limit, PAGE_CUTS))
            on_backend = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid > after)
            columns = (t.c.uid, t.c.tablet, t.c.desired, t.c.granted, t.c.acked, t.c.dropped)
            behind = select(*columns).where(on_backend, t.c.desired > t.c.acked)
            due = c.execute(behind.order_by(t.c.uid).limit(limit)).all()
            granted = self._grant(c, instance, backend, due)
            reached("binlog.granted")
        cuts = [
            GrantedCut(uid=row.uid, tablet=row.tablet, version=granted[row.uid])
            for row in due
            if granted[row.uid] > row.acked
        ]
        return CutPage(cuts=tuple(cuts), next=due[-1].uid if len(due) == limit else "")

    def _grant(self, c: Connection, instance: str, backend: str, due: Sequence[Any]) -> Mapping[str, int]:
        """Decide and store up to which version each replica's backend may delete; return it by uid."""
        live_tablets = sorted({row.tablet for row in due if not row.dropped})
        needed = needed_versions(self._db, c, instance, live_tablets)
        granted: dict[str, int] = {}
        for row in due:
            allowed = row.desired if row.dropped else min(row.desired, needed[row.tablet].version - 1)
            granted[row.uid] = max(row.granted, allowed)
        raised = [row for row in due if granted[row.uid] > row.granted]
        if raised:
            t = self._db.t.replica
            data = [{"uid": row.uid, "granted": granted[row.uid]} for row in raised]
            new = as_rows(data, uid=Text(), granted=BigInteger())
            same_copy = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == new.c.uid)
            c.execute(update(t).where(same_copy).values(granted=new.c.granted))
            released = {row.tablet: granted[row.uid] for row in raised if not row.dropped}
            record_released_versions(self._db, c, instance, released)
        return granted

    def acknowledge(self, instance: str, backend: str, done: Sequence[CutDone]) -> AcknowledgeResult:
        """Record what a backend has deleted. More than was granted is ignored; less than before changes nothing.

        Taken under the guard, as every write to rows of replicas, so that no deadlock is possible.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(backend)
        by_uid = _acknowledgements(done)
        if not by_uid:
            return AcknowledgeResult(ignored=len(done))
        db, t = self._db, self._db.t.replica
        flags = {"well": BigInteger(), "unknown": BigInteger()}
        ack = as_rows(by_uid.values(), uid=Text(), acked=BigInteger(), problem=Text(), **flags)
        on_backend = and_(t.c.instance == instance, t.c.backend == backend)
        # A backend that reports a problem has not deleted all that was granted, whatever version it names.
        deleted = case((ack.c.well == 1, ack.c.acked), (ack.c.acked < t.c.granted, ack.c.acked), else_=t.c.granted - 1)
        acked = case((deleted > t.c.acked, deleted), else_=t.c.acked)
        granted_copy = and_(on_backend, t.c.uid == ack.c.uid, ack.c.acked <= t.c.granted)
        # A dropped replica is finished when all of it is deleted, or its backend does not have it at all.
        backend_lacks_it = select(ack.c.uid).where(ack.c.uid == t.c.uid, ack.c.unknown == 1).exists()
        finished = and_(t.c.dropped, t.c.granted >= MAX_COMMIT_SEQ, or_(t.c.acked >= MAX_COMMIT_SEQ, backend_lacks_it))
        with deciding(db, instance) as c:
            changed = update(t).where(granted_copy).values(acked=acked, problem=ack.c.problem)
            taken = c.execute(changed).rowcount
            c.execute(delete(t).where(on_backend, in_list(t.c.uid, list(by_uid)), finished))
        return AcknowledgeResult(taken=taken, ignored=len(done) - taken)

    def waiting(self, instance: str, after: str, limit: int) -> Sequence[str]:
        """Return by name the backends that have binlogs to delete and beside which a Sexton worker runs."""
        t, b = self._db.t.replica, self._db.t.backend
        due = and_(t.c.instance == b.c.instance, t.c.backend == b.c.name, t.c.desired > t.c.acked)
        with self._db.read() as c:
            now = self._db.now(c)
            with_worker = and_(b.c.instance == instance, b.c.queue_at > now - QUEUE_MS, b.c.name > after)
            names = select(b.c.name).where(with_worker, select(t.c.uid).where(due).exists())
            return list(c.execute(names.order_by(b.c.name).limit(limit)).scalars())


def _acknowledgements(done: Sequence[CutDone]) -> Mapping[str, Mapping[str, Any]]:
    """Return the acknowledgements by uid as rows; of several for one uid the last one counts."""
    by_uid = {}
    for cut in done:
        if re.fullmatch(ID, cut.uid):
            well = cut.outcome == SweepOutcome.DONE
            problem = "" if well else f"{_printable(cut.outcome)}: {_printable(cut.detail)}".removesuffix(": ")
            by_uid[cut.uid] = {
                "uid": cut.uid,
                "acked": max(-1, min(cut.version, MAX_COMMIT_SEQ)),
                "problem": problem,
                "well": int(well),
                "unknown": int(cut.outcome == SweepOutcome.UNKNOWN),
            }
    return by_uid


def _printable(text: str) -> str:
    """Return a backend's text without unprintable characters, cut to what a column holds."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:DETAIL_CHARACTERS]
