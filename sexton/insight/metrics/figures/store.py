"""Read the figures: a few statements, whose cost grows with instances, kinds, and claimed or quarantined marks.

Marks that only wait are not counted: for each kind, one probe of the due index finds the oldest.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError
from sqlalchemy import JSON, Connection, Row, and_, func, literal, not_, select, true, union_all
from sqlalchemy.exc import DBAPIError

from sexton.check.model import RunState
from sexton.database.engine import AWAY, Database, first_line
from sexton.insight.metrics.figures.binlogs import figures as binlog_figures
from sexton.insight.metrics.figures.tables import table_bytes
from sexton.insight.metrics.figures.topics import figures as wal_figures
from sexton.insight.metrics.model import Figures, InstanceFigures
from sexton.insight.progress import running_rounds
from sexton.insight.spark_slots import read_slots
from sexton.insight.stores import InsightStores
from sexton.kernel.errors import SextonError
from sexton.kernel.live import Live
from sexton.marks.sql.leases import busy
from sexton.marks.sql.rows import CLAIMED, waits
from sexton.operators.access.sql.tokens import is_expiring
from sexton.operators.controls.policy import halt
from sexton.operators.registry.store import shows_live_objects
from sexton.protection.model import ProtectionState
from sexton.recycle.model import DAY_MS, RoundReport
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Policy
from sexton.recycle.rounds.policy import next_round
from sexton.recycle.rounds.sql.live_counters import RUNNING, read_counters
from sexton.recycle.rounds.sql.store import JOB
from sexton.wal.model import WalSettings

log = logging.getLogger(__name__)
Intervals: TypeAlias = tuple[int, int, int]
"""Seconds between two rounds, two purges of a topic, and two binlog GCs."""


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
        """Store the ports.

        Args:
            db: the database.
            stores: where facts come from beside the database's rows.
            policy: the retentions and limits in force.
            intervals: seconds between two rounds, two purges of a topic, and two binlog GCs; one number: of rounds.
            wal: when a region is so far behind that it is asked to flush; None: by default.
        """
        self._db = db
        self._stores = stores
        self._policy = Live.of(policy)
        three = (intervals, 1_800, 313) if isinstance(intervals, int) else intervals
        self._intervals: Live[Intervals] = Live.of(three)
        self._wal: Live[WalSettings] = Live.of(wal or WalSettings())

    def read(self) -> Figures:
        """Return the figures of this moment.

        Raises:
            FiguresUnread: the database does not answer, or refuses.
        """
        figures = self._in_snapshot(self._figures)
        sizes = table_bytes(self._db)
        unreadable = figures.unreadable + (sizes is None)
        return figures.model_copy(update={"table_bytes": sizes or {}, "unreadable": unreadable})

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

    def _in_snapshot(self, read: Callable[[Connection], Figures]) -> Figures:
        try:
            self._policy()  # read again before the transaction, if it is old
            with self._db.read() as c:
                return read(c)
        except AWAY as e:
            cause = first_line(e) if isinstance(e, DBAPIError) else "every connection is in use"
            raise FiguresUnread(f"the metrics could not be read from the database ({cause}); run: sexton doctor") from e

    def _figures(self, c: Connection) -> Figures:
        t, now = self._db.t, self._db.now(c)
        leased = busy(t.lease, JOB, now)
        controls = self._stores.operators.controls.all_in(c)
        rows = self._instances(c, now)
        retentions = {r.id: rules.for_owner(self._policy(r.id), r.owner).retention_seconds for r in rows}
        (interval, wal_interval, binlog_interval), policy = self._intervals(), self._policy()
        oldest_due, approvals = self._oldest_due(c, now, retentions), self._approvals(c)
        quarantined, vaults, reports = self._quarantined(c), self._vaults(c), self._newest_reports(c)
        findings, complete_checks, evidence = self._checks(c)
        running, checks_running = running_rounds(self._db, c), self._running_checks(c)
        instances = tuple(
            InstanceFigures(
                instance=row.id,
                enabled=row.mode == "enabled",
                quiet_since=max(row.enabled_at or 0, row.last_success_at or 0) if row.mode == "enabled" else None,
                halt=halt(controls, row.id, now),
                next_round=next_round(row.turn_at, row.retry_at, self._intervals(row.id)[0] * 1000, now),
                kinds=tuple(sorted(retentions[row.id])),
                oldest_due=oldest_due[row.id],
                approvals=len(approvals[row.id]),
                oldest_approval=min(approvals[row.id], default=None),
                quarantined=quarantined[row.id],
                vaults=tuple(vaults[row.id]),
                last=reports.get(row.id),
                running=running.get(row.id),
                check_since=checks_running.get(row.id),
                findings=findings.get(row.id, {}),
                whole_check=complete_checks.get(row.id, _awaits_check_since(row)),
                live_prefixes=evidence.get(row.id, {}).get("prefixes", 0),
                too_late_vaults=len(evidence.get(row.id, {}).get("too_late", ())),
                **{n: getattr(row, n) for n in ("failures", "last_success_at", "claimed", "awaiting_second_pass")},
                **{n: getattr(row, n) for n in ("holds", "oldest_hold", "unasked_objects")},
                **{n: getattr(row, n) for n in ("protections", "soft_protections", "oldest_protection")},
            )
            for row in rows
        )
        return Figures(
            now=now,
            interval_seconds=interval,
            retention_seconds=_longest([policy.retention_seconds, *retentions.values()]),
            max_delete_objects=policy.max_delete_objects,
            running=c.execute(select(func.count()).where(leased)).scalar_one(),
            unreadable=sum(report is None for report in reports.values()),
            instances=instances,
            paces=tuple(self._stores.paces.figures()),
            wal=wal_figures(self._db, c, now, self._wal()),
            wal_interval_seconds=wal_interval,
            binlogs=tuple(binlog_figures(self._db, c, now)),
            binlog_interval_seconds=binlog_interval,
            spark=read_slots(self._db, c),
            counters=dict(read_counters(self._db, c)),
            expiring_tokens=c.execute(select(func.count()).where(is_expiring(self._db, now))).scalar_one(),
        )

    def _instances(self, c: Connection, now: int) -> list[Row[Any]]:
        """Return every instance with the counts of its marks, holds and protections."""
        instance, mark, hold = self._db.t.instance, self._db.t.mark, self._db.t.hold
        claimed = select(func.count()).where(mark.c.instance == instance.c.id, mark.c.state == CLAIMED)
        batch = self._db.t.batch
        recent = and_(batch.c.instance == instance.c.id, batch.c.limited_objects > 0, batch.c.claimed_at > now - DAY_MS)
        unapproved = select(func.coalesce(func.sum(batch.c.limited_objects), 0)).where(recent)
        active = and_(hold.c.instance == instance.c.id, hold.c.released_at.is_(None), hold.c.expires_at > now)
        query = select(
            instance,
            claimed.scalar_subquery().label("claimed"),
            claimed.where(mark.c.first_pass_at.is_not(None)).scalar_subquery().label("awaiting_second_pass"),
            select(func.count()).where(active).scalar_subquery().label("holds"),
            unapproved.scalar_subquery().label("unasked_objects"),
            select(func.min(hold.c.placed_at)).where(active).scalar_subquery().label("oldest_hold"),
            *self._protections(),
        )
        return list(c.execute(query.order_by(instance.c.id)).all())

    def _protections(self) -> Iterator[Any]:
        """Yield the columns that count an instance's protections."""
        instance, t = self._db.t.instance, self._db.t.protection
        of_instance = t.c.instance == instance.c.id
        soft = t.c.state == ProtectionState.SOFT
        yield select(func.count()).where(of_instance, not_(soft)).scalar_subquery().label("protections")
        yield select(func.count()).where(of_instance, soft).scalar_subquery().label("soft_protections")
        yield select(func.min(t.c.registered_at)).where(of_instance).scalar_subquery().label("oldest_protection")

    def _approvals(self, c: Connection) -> defaultdict[str, list[int]]:
        """Return, by instance, since when each plan has waited for approval."""
        waiting: defaultdict[str, list[int]] = defaultdict(list)
        for plan in self._stores.approvals.waiting(c):
            waiting[plan.instance].append(plan.since or plan.created_at)
        return waiting

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
        first = (
            select(mark.c.retention_starts_at)
            .where(waiting)
            .order_by(mark.c.retention_starts_at)
            .limit(1)
            .scalar_subquery()
        )
        for row in c.execute(
            select(instance.c.id, kind.c.name, first.label("oldest")).select_from(instance.join(kind, true()))
        ):
            retention = retentions.get(row.id, {}).get(row.name)
            if row.oldest is not None and retention is not None and row.oldest <= now - 1000 * retention:
                oldest[row.id][row.name] = row.oldest
        return oldest

    def _quarantined(self, c: Connection) -> defaultdict[str, dict[str, int]]:
        """Return, by instance, how many marks are quarantined for each reason: one range of the index for each."""
        instance, mark = self._db.t.instance, self._db.t.mark
        of_instance = and_(mark.c.instance == instance.c.id, mark.c.quarantined_reason.is_not(None))
        reason = mark.c.quarantined_reason
        counted = select(reason, func.count().label("marks")).where(of_instance).group_by(reason)
        by_reason = counted.correlate(instance).subquery()
        as_object = select(func.json_object_agg(by_reason.c.quarantined_reason, by_reason.c.marks, type_=JSON()))
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for name, marks in c.execute(select(instance.c.id, as_object.scalar_subquery())):
            counts[name] = marks or {}
        return counts

    def _vaults(self, c: Connection) -> defaultdict[str, list[str]]:
        vault = self._db.t.vault
        names: defaultdict[str, list[str]] = defaultdict(list)
        for instance, name in c.execute(select(vault.c.instance, vault.c.name).order_by(vault.c.name)):
            names[instance].append(name)
        return names

    def _checks(self, c: Connection) -> tuple[dict[str, dict[str, tuple[int, int]]], dict[str, int], dict[str, Any]]:
        """Return, by instance, the findings open at the end of the last check, the last complete check, and evidence.

        That is when the last complete check began, and what the last check saw.
        """
        instance, run, other = self._db.t.instance, self._db.t.check_run, self._db.t.check_run.alias()
        ended = and_(other.c.instance == instance.c.id, other.c.open_counts.is_not(None))
        newest = select(func.max(other.c.id)).where(ended).correlate(instance).scalar_subquery()
        findings: dict[str, dict[str, tuple[int, int]]] = {}
        evidences: dict[str, Any] = {}
        newest_runs = select(run.c.instance, run.c.open_counts, run.c.evidence)
        for name, standing, evidence in c.execute(newest_runs.select_from(instance.join(run, run.c.id == newest))):
            findings[name] = {type_: (found, confirmed) for type_, (found, confirmed) in standing.items()}
            evidences[name] = evidence or {}
        whole = and_(run.c.instance == instance.c.id, run.c.state == RunState.WHOLE)
        complete = select(instance.c.id, select(func.max(run.c.cutoff)).where(whole).scalar_subquery())
        complete_checks = {row[0]: row[1] for row in c.execute(complete) if row[1] is not None}
        return findings, complete_checks, evidences

    def _running_checks(self, c: Connection) -> dict[str, int]:
        """Return, by instance, when the check began that runs now."""
        t = self._db.t.check_run
        began = select(t.c.instance, func.max(t.c.cutoff)).where(t.c.state == RUNNING).group_by(t.c.instance)
        return {row[0]: row[1] for row in c.execute(began)}

    def _newest_reports(self, c: Connection) -> dict[str, RoundReport | None]:
        """Return each instance's newest report, None where it cannot be parsed."""
        instance, round_ = self._db.t.instance, self._db.t.round.alias()
        reported = and_(round_.c.instance == instance.c.id, round_.c.report.is_not(None))
        newest = select(round_.c.id).where(reported).order_by(round_.c.id.desc()).limit(1).correlate(instance)
        reports: dict[str, RoundReport | None] = {}
        newest_round = self._db.t.round
        with_report = instance.join(newest_round, newest_round.c.id == newest.scalar_subquery())
        for name, report in c.execute(select(instance.c.id, newest_round.c.report).select_from(with_report)):
            try:
                reports[name] = RoundReport.model_validate(report)
            except ValidationError as e:
                reports[name] = None
                log.error(
                    "the newest report of %s is unreadable (%d problems); it has no figures", name, e.error_count()
                )
        return reports


def _awaits_check_since(row: Row[Any]) -> int | None:
    """Return since when a first complete check is expected: an enabled instance shows its live objects."""
    return row.enabled_at if row.mode == "enabled" and shows_live_objects(row) else None


def _longest(retentions: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {kind: max(r[kind] for r in retentions if kind in r) for kind in {k for r in retentions for k in r}}
