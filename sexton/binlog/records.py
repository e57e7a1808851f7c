"""Records as rows: stored as their owner commits, in the order of their numbers, and read page by page."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, insert, select

from sexton.binlog import rows
from sexton.binlog.config import check_names, ensure
from sexton.binlog.errors import OutOfOrder, TooOld
from sexton.binlog.model import Log, Read, Record, Stored
from sexton.binlog.policy import checked
from sexton.db.engine import Database
from sexton.db.rows import in_list, upsert
from sexton.errors import BadInput
from sexton.guard import UnknownInstance

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
        check_names(name, *(tbl for r in records for tbl in r.tables))
        made = {r.commit_seq: checked(r) for r in records}
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
            its = rows.standing(rows.logs(self._db, c, instance, name), name, table)
            if after < its.watermark:
                raise TooOld(its.name, after, its.watermark + 1)
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
        return Read(status=status, first=its.watermark + 1, last=its.last_seq, records=tuple(found))

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
        there = set(c.execute(select(b.c.seq).where(here)).scalars())
        known = old = disabled = 0
        for r in records:
            logs = _logs(own, tables, r)
            if r.commit_seq in there:
                known += 1
            elif all(r.commit_seq <= its.watermark for its in logs):
                old, disabled = old + bool(logs), disabled + (not logs)
            else:
                raise OutOfOrder(
                    f"record {r.commit_seq} of {own.db} came behind {own.last_seq}, and was not known: send records in "
                    "the order of their commit_seq, one writer after another"
                )
        return Stored(known=known, old=old, disabled=disabled)

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
        for r in new:
            # No later than now, and no earlier than what came before: then what has expired is what comes first.
            ts = max(ts, min(r.timestamp, now)) if r.timestamp else (ts or now)
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
        for table, data in ((t.binlog, whole), (t.binlog_of, of), (t.binlog_part, parts)):
            if data:
                c.execute(insert(table), data)
        log = t.binlog_log
        rows_ = [
            here | {"tbl": b, "records": n[0], "bytes": n[1], "last_seq": last, "last_ts": ts} for b, n in count.items()
        ]
        row = upsert(self._db, log)
        changed = {name: row.excluded[name] for name in ("records", "bytes", "last_seq", "last_ts")}
        c.execute(row.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=changed), rows_)
        return told.model_copy(update={"stored": stored, "disabled": told.disabled + len(new) - stored})


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
