"""Store the reports of nodes on their regions in one statement. No topic is locked: a report only raises needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    case,
    func,
    null,
    or_,
    select,
    update,
)

from sexton.database.engine import Database
from sexton.database.rows import as_rows, upsert
from sexton.wal.orders import HeartbeatReceipt, LeaderReport
from sexton.wal.reports import CLEAR_PENDING, is_plausible, reported_need
from sexton.wal.sql.rows import greatest


class HeartbeatStore:
    """Stores heartbeats."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record_reports(self, node: str, reports: Sequence[LeaderReport], url: str = "") -> HeartbeatReceipt:
        """Raise what regions need by the reports of their leaders; ``reports.merge`` documents the rule.

        A report is ignored if it is in another epoch than the map or an opening made known, comes from a follower, is
        about a region that is not mapped, or has impossible numbers.

        Args:
            node: who reports.
            reports: one for each region and topic.
            url: where the node takes requests to flush; empty: the address that it reported before.
        """
        rows = [_report_row(report) for report in reports if report.leader and is_plausible(report)]
        db, r, t = self._db, self._db.t.wal_region, self._db.t.wal_topic
        number = BigInteger()
        types = {"topic": Text(), "region": Text(), "source": Text(), "flushed": r.c.flushed.type}
        report = as_rows(db, rows, **types, epoch=number, keep_from=number, flushed_total=number)
        same_region = and_(r.c.topic == report.c.topic, r.c.region == report.c.region, report.c.epoch == r.c.epoch)
        merged = update(r).where(same_region, t.c.name == r.c.topic).values(**self._merged_columns(report), node=node)
        with db.write() as c:
            now = db.now(c)
            if url:
                self._store_address(c, {"name": node, "url": url, "seen_at": now})
            if db.dialect == "postgresql":  # lock in one order: two nodes that report the same rows would deadlock
                locked = select(r.c.region).select_from(report).join(r, same_region).order_by(r.c.topic, r.c.region)
                c.execute(locked.with_for_update(of=r))
            waiting: list[bool] = []
            if rows:
                updated = c.execute(merged.values(reported_at=now).returning(r.c.pending_keep_from))
                waiting = [row.pending_keep_from is not None for row in updated]
        taken = len(waiting) - sum(waiting)
        return HeartbeatReceipt(taken=taken, waiting=sum(waiting), ignored=len(reports) - len(waiting))

    def _merged_columns(self, report: FromClause) -> dict[str, ColumnElement[Any]]:
        """Return the columns of a region after a report: the truth table of ``reports.merge`` as SQL.

        Each column is one CASE: its value in ``counted`` if the report counts, unchanged if the report is dropped, else
        its value in ``pending``, if there is one.
        """
        db, r, t = self._db, self._db.t.wal_region, self._db.t.wal_topic
        is_counted = report.c.keep_from <= func.coalesce(t.c.log_end, -1)
        is_dropped = or_(r.c.pending_keep_from <= report.c.keep_from, report.c.keep_from.is_(None))
        rises = report.c.keep_from > func.coalesce(r.c.keep_from, -1)
        counted: dict[str, ColumnElement[Any]] = {
            "keep_from": greatest(db, r.c.keep_from, report.c.keep_from),
            "flushed_total": greatest(db, r.c.flushed_total, report.c.flushed_total),
            "flushed": case((report.c.flushed_total >= r.c.flushed_total, report.c.flushed), else_=r.c.flushed),
            "source": case((rises, report.c.source), else_=r.c.source),
            **{name: null() for name in CLEAR_PENDING},
        }
        pending: dict[str, ColumnElement[Any]] = {
            "pending_keep_from": report.c.keep_from,
            "pending_total": report.c.flushed_total,
            "pending_flushed": report.c.flushed,
        }
        return {
            name: case((is_counted, value), (is_dropped, r.c[name]), else_=pending.get(name, r.c[name]))
            for name, value in counted.items()
        }

    def _store_address(self, c: Connection, row: Mapping[str, Any]) -> None:
        t = self._db.t.wal_node
        insert = upsert(self._db, t).values(**row)
        c.execute(insert.on_conflict_do_update(index_elements=[t.c.name], set_=dict(row)))


def _report_row(report: LeaderReport) -> dict[str, Any]:
    need = reported_need(report)
    return {"topic": report.topic, "region": report.region, "epoch": report.epoch, **need._asdict()}
