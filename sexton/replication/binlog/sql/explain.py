"""Explain what a cut of a log would do now, and which consumers and replicas block the rest. Nothing is cut."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.errors import UnknownLog
from sexton.replication.binlog.explanation import LogCutPreview, LogExplanation, RetainingCopy
from sexton.replication.binlog.model import Log
from sexton.replication.binlog.sql import rows
from sexton.replication.binlog.sql.cutting import CutPreview, Cutter
from sexton.replication.binlog.sql.figures import find_last_run
from sexton.replication.replicas.model import Replica
from sexton.replication.replicas.policy import describe_faults
from sexton.replication.replicas.sql import figures

if TYPE_CHECKING:
    from sexton.replication.binlog.binlogs import BinlogService

MAX_LINES = 100
MAX_NAMED_COPIES = 5


def explain(db: Database, binlogs: "BinlogService", instance: str, name: str, table: str = "") -> LogExplanation:
    """Decide as a cut would, and explain the decision. Raises ``UnknownLog``."""
    with db.snapshot() as c:
        now, logs = db.now(c), rows.read_logs(db, c, instance, name)
        own_log, log = logs.get(""), logs.get(table)
        if own_log is None or log is None:
            raise UnknownLog(rows.log_name(name, table))
        previews = list(islice(binlogs.cutter.preview(c, instance, name, table), MAX_LINES))
        look = find_last_run(db, c, instance)
        halted = _reason_halted(binlogs.controls, c, instance)
        consumers = rows.read_consumers(db, c, instance, name)
        scope = (db, c, instance, name, table)
        standings = figures.backend_standings(*scope)
        retaining = figures.retaining_replicas(*scope, limit=MAX_NAMED_COPIES)
        return LogExplanation(
            instance=instance,
            db=name,
            tbl=table,
            own=own_log,
            dropped_at=log.dropped_at if log.dropped_at is not None else own_log.dropped_at,
            lines=tuple(_line(c, binlogs.cutter, preview) for preview in previews),
            logs=len(previews) if table else _count_cut_logs(logs),
            halted=halted,
            clock=policy.clock_problem(look.checked_at, now, binlogs.settings),
            look=look,
            consumers=tuple(reader for reader in consumers if own_log.enabled or table in ("", reader.tbl)),
            lost_after_seconds=binlogs.settings.hold_limit_seconds,
            backends=tuple(standing for standing in standings if standing.behind),
            holders=tuple(figures.retaining_by_backend(*scope)),
            named=tuple(RetainingCopy(replica=replica, why=_what_it_lacks(replica, now)) for replica in retaining),
            now=now,
        )


def _reason_halted(controls: ControlStore, c: Connection, instance: str) -> str:
    try:
        controls.check_in(c, instance)
    except (Halted, NotEnabled) as e:
        return str(e)
    return ""


def _count_cut_logs(logs: Mapping[str, Log]) -> int:
    """Return how many logs of a database are cut by themselves: its own, or those of its tables."""
    own_enabled = logs[""].enabled
    return sum(1 for log in logs.values() if log.dropped_at is None and bool(log.tbl) is not own_enabled)


def _line(c: Connection, cutter: Cutter, preview: CutPreview) -> LogCutPreview:
    log, cut = preview.log, preview.cut
    wants = cut.awaiting_seq if log.awaiting_seq is None else log.awaiting_seq
    return LogCutPreview(
        log=log,
        cut=cut,
        expired=preview.expired.records if preview.expired else 0,
        goes=cutter.count_upto(c, log, cut.seq) if cut.seq > log.watermark else 0,
        waits=0 if wants is None else cutter.count_upto(c, log, wants),
    )


def _what_it_lacks(replica: Replica, now: int) -> str:
    return describe_faults(replica, now) or f"needs version {replica.needs} and above"
