"""Records as rows: stored as their owner commits, in the order of their numbers, and read page by page."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, and_, case, insert, select

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.database.rows import as_rows, in_list, upsert
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import OutOfOrder, RecordsTrimmed
from sexton.replication.binlog.model import Log, Read, Record, Stored
from sexton.replication.binlog.policy import checked, old
from sexton.replication.binlog.sql import rows
from sexton.replication.binlog.sql.config import check_names, ensure

PAGE_RECORDS = 1_000
PAGE_BYTES = 8 << 20
NONE = ""
"""The log of records that name no table, where their database has none."""


class RecordStore:
    """Records of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, instance: str, name: str, records: Sequence[Record]) -> Stored:
        """Store what a database committed. Sent again, it is known.

        Raises:
            UnknownInstance: no such instance.
            OutOfOrder: one is neither known nor behind all that are: whoever has read a later one would not see it.
            BadInput: a record cannot be, or is named twice.
        """
        made = {r.commit_seq: checked(r) for r in records}
        check_text(*(text for r in records for text in (r.data, r.type)))
        # An UPSERT is a record of every table that it made versions of, named or not.
        whole = [tuple(dict.fromkeys((*r.tables, *made[r.commit_seq]))) for r in records]
        records = [r.model_copy(update={"tables": tables}) for r, tables in zip(records, whole, strict=True)]
        check_names(name, *(tbl for r in records for tbl in r.tables))
        if len(made) < len(records):
            raise BadInput("a record is named twice")
        db = self._db
        with db.write() as c:
            self._known(c, instance)
            ensure(db, c, instance, name)
            own = self._locked(c, instance, name)
            names = {tbl for r in records for tbl in r.tables}
            tables = {its.tbl: its for its in self._of(c, instance, name, names)}
            new = sorted((r for r in records if r.commit_seq > own.last_seq), key=lambda r: r.commit_seq)
            told = self._again(c, own, tables, [r for r in records if r.commit_seq <= own.last_seq])
            return self._store(c, own, tables, new, made, told)

    def read(self, instance: str, name: str, table: str = "", after: int = 0, limit: int = PAGE_RECORDS) -> Read:
        """Return the records of a log behind one, in their order, up to a thousand and some MiB.

        Raises:
            UnknownLog: nobody keeps it.
            TooOld: what comes behind that one is gone.
        """
        b, of = self._db.t.binlog, self._db.t.binlog_of
        with self._db.snapshot() as c:  # the watermark and what is above it, as of one moment
            its = rows.standing(rows.logs(self._db, c, instance, name, [table]), name, table)
            if after < its.floor:
                raise RecordsTrimmed(its.name, after, its.floor + 1)
            here = and_(b.c.instance == instance, b.c.db == name, b.c.seq > after)
            asked = select(b.c.seq, b.c.stamp, b.c.type, b.c.tables, b.c.data, b.c.bytes).where(here)
            if table:
                same = and_(of.c.instance == b.c.instance, of.c.db == b.c.db, of.c.seq == b.c.seq)
                asked = asked.join(of, and_(same, of.c.tbl == table))
            size = 0
            found: list[Record] = []
            for row in c.execute(asked.order_by(b.c.seq).limit(min(limit, PAGE_RECORDS))):
                size += row.bytes
                if found and size > PAGE_BYTES:
                    break
                told = {"timestamp": row.stamp, "tables": row.tables, "type": row.type, "data": row.data}
                found.append(Record(commit_seq=row.seq, **told))
        status = "OK" if found else "TOO_NEW"
        return Read(status=status, first=its.floor + 1, last=its.last_seq, records=tuple(found))

    def _known(self, c: Connection, instance: str) -> None:
        t = self._db.t.instance
        if c.execute(select(t.c.id).where(t.c.id == instance)).first() is None:
            raise UnknownInstance(instance)

    def _locked(self, c: Connection, instance: str, name: str) -> Log:
        t = self._db.t.binlog_log
        row = c.execute(select(t).where(rows.one(t, instance, (name, ""))).with_for_update()).one()
        return rows.log(row)

    def _of(self, c: Connection, instance: str, name: str, tables: set[str]) -> list[Log]:
        t = self._db.t.binlog_log
        here = and_(t.c.instance == instance, t.c.db == name, in_list(self._db, t.c.tbl, sorted(tables)))
        return [rows.log(r) for r in c.execute(select(t).where(here))]

    def _again(self, c: Connection, own: Log, tables: Mapping[str, Log], records: Sequence[Record]) -> Stored:
        """Tell what is known of records that are not behind all others."""
        if not records:
            return Stored()
        b = self._db.t.binlog
        sent = in_list(self._db, b.c.seq, [r.commit_seq for r in records])
        here = and_(b.c.instance == own.instance, b.c.db == own.db, sent)
        there = {row.seq: (row.type, row.data) for row in c.execute(select(b.c.seq, b.c.type, b.c.data).where(here))}
        known = gone = disabled = 0
        for r in records:
            logs = _logs(own, tables, r)
            if r.commit_seq in there:
                if there[r.commit_seq] != (r.type, r.data):
                    raise OutOfOrder(f"record {r.commit_seq} of {own.db} is known, and was another one")
                known += 1
            elif all(r.commit_seq <= its.floor for its in logs):
                gone, disabled = gone + bool(logs), disabled + (not logs)
            else:
                raise OutOfOrder(
                    f"record {r.commit_seq} of {own.db} came behind {own.last_seq}, and was not known: send records in "
                    "the order of their commit_seq, one writer after another"
                )
        return Stored(known=known, old=gone, disabled=disabled)

    def _insert(self, c: Connection, table: Table, data: Sequence[Mapping[str, Any]]) -> None:
        """Insert many small rows by one statement."""
        if data:
            types = {n: table.c[n].type for n in data[0]}
            given = as_rows(self._db, data, **types)
            c.execute(insert(table).from_select(list(types), select(*(given.c[n] for n in types))))

    def _store(
        self,
        c: Connection,
        own: Log,
        tables: Mapping[str, Log],
        new: Sequence[Record],
        made: Mapping[int, Mapping[str, Mapping[str, int]]],
        told: Stored,
    ) -> Stored:
        if not new:
            return told
        t, here, now, ts, stored = self._db.t, {"instance": own.instance, "db": own.db}, self._db.now(c), own.last_ts, 0
        whole: list[dict[str, Any]] = []
        of: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []
        count = {its.tbl: [its.records, its.bytes] for its in (own, *tables.values())}
        skipped: dict[str, int] = {}
        for r in new:
            ts = old(r, ts, now)
            skipped |= dict.fromkeys(_skipping(own, tables, r), r.commit_seq)
            if not _logs(own, tables, r):
                continue
            stored, size = stored + 1, len(r.data.encode())
            names = _names(own, tables, r)
            for tbl in names or [NONE]:
                at = count.setdefault(tbl, [0, 0])
                n = at[0] + 1
                of.append(here | {"tbl": tbl, "seq": r.commit_seq, "n": n, "bytes_before": at[1]})
                if tbl != NONE:
                    count[tbl] = [n, at[1] + size]
            at = count[""]
            its = {"seq": r.commit_seq, "ts": ts, "stamp": r.timestamp, "type": r.type, "data": r.data}
            its |= {"tables": list(r.tables), "bytes": size, "n": at[0] + 1, "bytes_before": at[1]}
            whole.append(here | its)
            count[""] = [at[0] + 1, at[1] + size]
            for tbl, versions in made[r.commit_seq].items():
                if tbl in names:
                    its = here | {"tbl": tbl, "seq": r.commit_seq}
                    parts += [its | {"part": part, "version": version} for part, version in versions.items()]
        last = new[-1].commit_seq
        if whole:
            c.execute(insert(t.binlog), whole)
        for table, data in ((t.binlog_of, of), (t.binlog_part, parts)):
            self._insert(c, table, data)
        log = t.binlog_log
        skipped |= {"": last} if not own.enabled else {}
        row = upsert(self._db, log)
        changed = {name: row.excluded[name] for name in ("records", "bytes", "last_seq", "last_ts")}
        changed["skipped"] = case((row.excluded.skipped > log.c.skipped, row.excluded.skipped), else_=log.c.skipped)
        same = here | {
            "last_seq": last,
            "last_ts": ts,
            "begins": own.floor,
        }
        logs = [
            same | {"tbl": tbl, "records": n, "bytes": size, "skipped": skipped.get(tbl, 0)}
            for tbl, (n, size) in count.items()
        ]
        c.execute(row.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=changed), logs)
        return told.model_copy(update={"stored": stored, "disabled": told.disabled + len(new) - stored})


def _skipping(own: Log, tables: Mapping[str, Log], record: Record) -> list[str]:
    """Return the tables that a record names and in whose logs it will not be."""
    return [] if own.enabled else [tbl for tbl in record.tables if tbl in tables and not tables[tbl].enabled]


def _names(own: Log, tables: Mapping[str, Log], record: Record) -> list[str]:
    """Return the tables in whose logs a record is: all that it names, where its database has a log."""
    if own.enabled:
        return [tbl for tbl in dict.fromkeys(record.tables) if not (tbl in tables and tables[tbl].dropped_at)]
    return [its.tbl for its in _logs(own, tables, record)]


def _logs(own: Log, tables: Mapping[str, Log], record: Record) -> list[Log]:
    """Return the logs that hold a record: its database's, or those of its tables; none: it is not kept."""
    if own.dropped_at is not None:
        return []
    if own.enabled:
        return [own]
    return [
        its
        for tbl in dict.fromkeys(record.tables)
        if (its := tables.get(tbl)) and its.enabled and its.dropped_at is None
    ]
