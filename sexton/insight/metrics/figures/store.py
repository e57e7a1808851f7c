"""Read the figures: a few statements, whose cost grows with instances, kinds, and claimed or quarantined marks.

Marks that only wait are not counted: for each kind, one probe of the due index finds the oldest.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, Row, and_, func, literal, or_, select, true, union_all, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from sexton.database.engine import AWAY, Database, first_line, now_once
from sexton.database.guard import EVERYTHING
from sexton.database.tables import METADATA
from sexton.insight.metrics.figures.logs import binlog_figures, wal_figures
from sexton.insight.metrics.model import Figures, InstanceFigures
from sexton.insight.progress import read_slots, running_rounds
from sexton.insight.status import InsightStores, read_instances
from sexton.kernel.errors import SextonError
from sexton.kernel.live import Live
from sexton.marks.policy import due_by, is_due
from sexton.marks.sql.rows import waits
from sexton.operators.access.store import is_expiring
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.registry.store import shows_live_objects
from sexton.recycle.model import RoundReport
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Policy
from sexton.recycle.rounds.policy import next_round
from sexton.recycle.rounds.sql.reports import read_counters
from sexton.wal.model import WalSettings

log = logging.getLogger(__name__)
Intervals: TypeAlias = tuple[int, int, int]
"""Seconds between two rounds, two purges of a topic, and two binlog GCs."""
AS_READ = InstanceFigures.model_fields.keys() - {"quarantined", "whole_check"}
"""Figures that have the value of the column of the same name."""


LEASE_MS = 90_000
"""Longer than Prometheus usually waits between two scrapes of a process."""
T = TypeVar("T")


class FiguresUnread(SextonError):
    """The database did not answer a scrape."""


class FigureStore:
    """Reads the figures of all instances."""

    def __init__(
        self,
        db: Database,
        stores: InsightStores,
        policy: Policy | Live[Policy],
        intervals: int | Intervals | Live[Intervals],
        wal: WalSettings | Live[WalSettings] | None = None,
    ) -> None:
        """``intervals``: seconds between two rounds, two purges of a topic, and two binlog GCs; one number: of rounds.

        ``wal``: when a region is so far behind that it is asked to flush; None: by default.
        """
        self._db = db
        self._stores = stores
        self._policy = Live.of(policy)
        three = (intervals, 1_800, 313) if isinstance(intervals, int) else intervals
        self._intervals: Live[Intervals] = Live.of(three)
        self._wal: Live[WalSettings] = Live.of(wal or WalSettings())

    def read(self) -> Figures:
        """Return the figures of this moment; ``FiguresUnread``: the database does not answer, or refuses."""
        figures = self._in_snapshot(self._figures)
        sizes = table_bytes(self._db)
        unreadable = figures.unreadable + (sizes is None)
        return figures.model_copy(update={"table_bytes": sizes or {}, "unreadable": unreadable})

    def read_alone(self, process: str) -> Figures | None:
        """Return the figures as ``read``; None while another process, scraped within ``LEASE_MS``, exports them."""
        lease, until = self._db.t.lease, now_once(LEASE_MS)
        is_metrics = and_(lease.c.instance == EVERYTHING, lease.c.job == "metrics")
        is_valid = lease.c.expires_at.between(now_once(), until)  # not later: the clock was ahead

        def acquired(c: Connection) -> bool:
            values = {"owner": process, "expires_at": until}
            if c.execute(
                update(lease).where(is_metrics, or_(lease.c.owner == process, is_valid.is_not(True))).values(values)
            ).rowcount:
                return True
            first = insert(lease).values(instance=EVERYTHING, job="metrics", **values).on_conflict_do_nothing()
            return c.execute(first.returning(lease.c.job)).first() is not None

        return self.read() if self._in_snapshot(acquired) else None

    def update(self, figures: Figures) -> Figures:
        """Return figures in which running rounds and counters are of this moment: statements that stay fast.

        Raises:
            FiguresUnread: the database does not answer, or refuses.
        """

        def moved(c: Connection) -> Figures:
            running = running_rounds(self._db, c)
            instances = tuple(i.model_copy(update={"running": running.get(i.instance)}) for i in figures.instances)
            counters = dict(read_counters(self._db, c))
            return figures.model_copy(update={"now": self._db.now(c), "instances": instances, "counters": counters})

        return self._in_snapshot(moved)

    def _in_snapshot(self, read: Callable[[Connection], T]) -> T:
        try:
            self._policy()  # read again before the transaction, if it is old
            with self._db.read() as c:
                return read(c)
        except AWAY as e:
            cause = first_line(e) if isinstance(e, DBAPIError) else "every connection is in use"
            raise FiguresUnread(f"the metrics could not be read from the database ({cause}); run: sexton doctor") from e

    def _figures(self, c: Connection) -> Figures:
        now, rows = self._db.now(c), read_instances(self._db, c)
        halted = halt_by_instance(self._stores.operators.controls.all_in(c), now)
        retentions = {r.id: rules.for_owner(self._policy(r.id), r.owner).retention_seconds for r in rows}
        (interval, wal_interval, binlog_interval), policy = self._intervals(), self._policy()
        every = [policy.retention_seconds, *retentions.values()]
        oldest_due, vault = self._oldest_due(c, now, retentions), self._db.t.vault
        approvals: defaultdict[str, list[int]] = defaultdict(list)  # since when each plan has waited
        for plan in self._stores.approvals.waiting(c):
            approvals[plan.instance].append(plan.since or plan.created_at)
        vaults: defaultdict[str, list[str]] = defaultdict(list)
        for instance, name in c.execute(select(vault.c.instance, vault.c.name).order_by(vault.c.name)):
            vaults[instance].append(name)
        spark = read_slots(self._db, c)
        running, reports = running_rounds(self._db, c), {row.id: _report(row) for row in rows}
        instances = tuple(
            InstanceFigures(
                instance=row.id,
                enabled=row.mode == "enabled",
                quiet_since=max(row.enabled_at or 0, row.last_success_at or 0) if row.mode == "enabled" else None,
                halt=halted(row.id),
                next_round=next_round(row.turn_at, row.retry_at, self._intervals(row.id)[0] * 1000, now),
                kinds=tuple(sorted(retentions[row.id])),
                oldest_due=oldest_due[row.id],
                approvals=len(approvals[row.id]),
                oldest_approval=min(approvals[row.id], default=None),
                quarantined=row.quarantined or {},
                vaults=tuple(vaults[row.id]),
                last=reports[row.id],
                running=running.get(row.id),
                findings=row.open_counts or {},
                # Before the first complete check: an enabled instance with a live view should have had one since then.
                whole_check=row.whole_check
                or (row.enabled_at if row.mode == "enabled" and shows_live_objects(row) else None),
                live_prefixes=(row.evidence or {}).get("prefixes", 0),
                too_late_vaults=len((row.evidence or {}).get("too_late", ())),
                **{n: value for n, value in row._mapping.items() if n in AS_READ},
            )
            for row in rows
        )
        return Figures(
            now=now,
            interval_seconds=interval,
            retention_seconds={kind: max(r[kind] for r in every if kind in r) for kind in set().union(*every)},
            max_delete_objects=policy.max_delete_objects,
            running=rows[0].slots_used if rows else 0,
            unreadable=sum(row.report is not None and reports[row.id] is None for row in rows),
            instances=instances,
            paces=tuple(self._stores.paces.figures()),
            wal=wal_figures(self._db, c, self._wal()),
            wal_interval_seconds=wal_interval,
            binlogs=tuple(binlog_figures(self._db, c, now)),
            binlog_interval_seconds=binlog_interval,
            spark_workers=spark.workers,
            spark_slots=spark.slots,
            spark_busy=spark.busy,
            counters=dict(read_counters(self._db, c)),
            expiring_tokens=c.execute(select(func.count()).where(is_expiring(self._db))).scalar_one(),
        )

    def _oldest_due(
        self, c: Connection, now: int, retentions: Mapping[str, Mapping[str, int]]
    ) -> defaultdict[str, dict[str, int]]:
        """Return when the oldest due mark began to age, by instance and kind: one probe of the due index for each."""
        instance, mark = self._db.t.instance, self._db.t.mark
        oldest: defaultdict[str, dict[str, int]] = defaultdict(dict)
        kinds = {kind for by_kind in retentions.values() for kind in by_kind}
        if not kinds:
            return oldest
        kind = union_all(*(select(literal(k).label("name")) for k in sorted(kinds))).subquery()
        waiting = and_(mark.c.instance == instance.c.id, mark.c.kind == kind.c.name, waits(mark))
        first = select(mark.c.retention_starts_at).where(waiting).order_by(mark.c.retention_starts_at).limit(1)
        probes = select(instance.c.id, kind.c.name, first.scalar_subquery().label("oldest"))
        for row in c.execute(probes.select_from(instance.join(kind, true()))):
            retention = retentions.get(row.id, {}).get(row.name)
            if row.oldest is not None and retention is not None and is_due(row.oldest, due_by(retention, now)):
                oldest[row.id][row.name] = row.oldest
        return oldest


def _report(row: Row[Any]) -> RoundReport | None:
    """Return the newest report of an instance's row; None where it has none, or it cannot be parsed."""
    try:
        return None if row.report is None else RoundReport.model_validate(row.report)
    except ValidationError as e:
        log.error("the newest report of %s is unreadable (%d problems); it has no figures", row.id, e.error_count())
        return None


LOCK_MS = 500
"""How long the sizes wait for a table that is locked exclusively, for example by VACUUM FULL."""
# The sizes need no right to any table: every role may read pg_class and call pg_total_relation_size.
_SIZES = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relnamespace = 'sexton'::regnamespace AND relname = ANY(%(tables)s::name[])"
)


def table_bytes(db: Database) -> Mapping[str, int] | None:
    """Return the bytes of each table with its indexes and TOAST; None where the database does not answer.

    The transaction is its own, so the other figures are read anyway.
    """
    try:
        with db.read() as c:
            c.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
            rows = c.exec_driver_sql(_SIZES, {"tables": [table.name for table in METADATA.sorted_tables]}).all()
    except AWAY as e:
        cause = first_line(e) if isinstance(e, DBAPIError) else "every connection is in use"
        log.warning("the sizes of Sexton's tables are unknown for this scrape: %s", cause)
        return None
    return {name: size for name, size in sorted(map(tuple, rows)) if size is not None}
