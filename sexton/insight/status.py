"""Read the status of every instance for one screen, and how much a running round has deleted. SQL alone."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, case, func, or_, select

from sexton.check.model import RunState
from sexton.database.engine import Database
from sexton.database.rows import in_list, sum_of
from sexton.insight.progress import read_progress
from sexton.insight.stores import InsightStores
from sexton.insight.views import Checked, InstanceStatus, KindStatus, Overview, Running
from sexton.kernel.live import Live
from sexton.marks.lease import LeaseState
from sexton.marks.model import MarkState
from sexton.marks.sql.leases import busy
from sexton.marks.sql.rows import waits
from sexton.operators.registry.store import Instance, names_a_view, shows_live_objects
from sexton.recycle.model import RoundReport, RoundState
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Policy
from sexton.recycle.planning.sql.due_pages import next_due
from sexton.recycle.planning.sql.measure import find_kinds
from sexton.recycle.rounds.sql.store import JOB


def overview(
    db: Database, stores: InsightStores, policy: Policy | Live[Policy], slots: int, only: str | None = None
) -> Overview:
    """Return the status of one instance, or of every one.

    Args:
        db: the database.
        stores: where facts come from beside the database's rows.
        policy: the settings in force, by which marks are due.
        slots: how many rounds may run at once.
        only: the instance; None: every one.
    """
    registry = stores.operators.registry
    instances = registry.instances() if only is None else [registry.instance(only)]
    policies = Live.of(policy)
    statuses = tuple(_instance_status(db, i, stores, policies(i.id)) for i in instances)
    lease = db.t.lease
    with db.read() as c:
        is_busy = busy(lease, JOB, db.now(c))
        slots_used = _count(c, lease, is_busy)
    return Overview(slots_used=slots_used, slots=slots, instances=statuses)


def _instance_status(db: Database, instance: Instance, stores: InsightStores, policy: Policy) -> InstanceStatus:
    name = instance.id
    mark, hold, protection = db.t.mark, db.t.hold, db.t.protection
    next_round = stores.schedule.next_round(name)
    with db.read() as c:
        now = db.now(c)
        claimed = and_(mark.c.instance == name, mark.c.state == MarkState.CLAIMED)
        active_hold = and_(hold.c.instance == name, hold.c.released_at.is_(None), hold.c.expires_at > now)
        columns = db.t.instance.c
        row = c.execute(
            select(columns.failures, columns.last_success_at, columns.owner).where(columns.id == name)
        ).one()
        policy = rules.for_owner(policy, row.owner)
        kinds = find_kinds(db, c, name, policy.retention_seconds)
        running = _running(db, c, name, now)
        last, last_ended = _last_report(db, c, name)
        return InstanceStatus(
            instance=name,
            mode=instance.mode,
            now=now,
            running=running,
            next_round=next_round if running is None else None,
            halt=stores.operators.controls.halt(c, name),
            failures=row.failures,
            last_success=row.last_success_at,
            holds=_count(c, hold, active_hold),
            kinds=_kind_statuses(db, c, name, kinds.names, policy, now),
            more_kinds=kinds.more,
            claimed=_count(c, mark, claimed),
            late=_count(c, mark, and_(claimed, mark.c.first_pass_at.is_not(None))),
            quarantined={reason: count.marks for reason, count in count_quarantined(db, c, name).items()},
            approvals=tuple(stores.approvals.waiting(c, name)),
            caps=tuple(stores.paces.caps(name)),
            checked=_checked(db, c, name),
            live_view=instance.live_view,
            shows_live_objects=shows_live_objects(instance),
            live_view_read_as_sexton=names_a_view(instance) and not db.has_live_login,
            protections=_count(c, protection, protection.c.instance == name),
            last=last,
            last_ended=last_ended,
        )


def _count(c: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    return int(c.execute(select(func.count()).select_from(table).where(condition)).scalar_one())


def _running(db: Database, c: Connection, instance: str, now: int) -> Running | None:
    """Return the round of an instance that has not ended, or the lease that a run took before it opened its round."""
    lease, round_ = db.t.lease, db.t.round
    is_held = and_(lease.c.instance == instance, lease.c.job == JOB, lease.c.state == LeaseState.BUSY)
    lease_row = c.execute(select(lease.c.acquired_at, lease.c.expires_at).where(is_held)).one_or_none()
    is_running = and_(round_.c.instance == instance, round_.c.state == RoundState.RUNNING)
    newest = select(round_).where(is_running).order_by(round_.c.id.desc()).limit(1)
    round_row = c.execute(newest).one_or_none()
    leased = lease_row is not None
    cut_off = lease_row is not None and lease_row.expires_at <= now
    if round_row is not None:
        return Running(
            round=round_row.id,
            since=round_row.started_at,
            waiting=round_row.waiting,
            waiting_since=round_row.waiting_since,
            leased=leased,
            cut_off=cut_off,
            progress=read_progress(db, c, round_row.id),
        )
    if lease_row is not None:
        return Running(round=None, since=lease_row.acquired_at, leased=leased, cut_off=cut_off)
    return None


def _last_report(db: Database, c: Connection, instance: str) -> tuple[RoundReport | None, int | None]:
    """Return the report of the newest round that has ended, and when that was (ms since 1970)."""
    t = db.t.round
    ended = select(t.c.report, t.c.ended_at).where(t.c.instance == instance, t.c.report.is_not(None))
    row = c.execute(ended.order_by(t.c.id.desc()).limit(1)).one_or_none()
    return (None, None) if row is None else (RoundReport.model_validate(row.report), row.ended_at)


class QuarantineCount(NamedTuple):
    """Quarantined marks with one reason; ``since``: when the oldest of them was marked (ms since 1970)."""

    marks: int
    since: int


def count_quarantined(db: Database, c: Connection, instance: str) -> dict[str, QuarantineCount]:
    """Return how many marks are quarantined, by reason."""
    mark = db.t.mark
    quarantined = and_(mark.c.instance == instance, mark.c.quarantined_reason.is_not(None))
    oldest = func.min(mark.c.marked_at, type_=mark.c.marked_at.type)
    by_reason = select(mark.c.quarantined_reason, func.count(), oldest).where(quarantined)
    rows = c.execute(by_reason.group_by(mark.c.quarantined_reason))
    return {str(reason): QuarantineCount(marks, since) for reason, marks, since in rows}


def _checked(db: Database, c: Connection, instance: str) -> Checked:
    run = db.t.check_run
    of_instance = run.c.instance == instance
    ended = select(run.c.state, run.c.open_counts, run.c.evidence).where(of_instance, run.c.open_counts.is_not(None))
    last = c.execute(ended.order_by(run.c.id.desc()).limit(1)).one_or_none()
    newest_whole = select(func.max(run.c.cutoff)).where(of_instance, run.c.state == RunState.WHOLE)
    newest_running = select(func.max(run.c.cutoff)).where(of_instance, run.c.state == RunState.RUNNING)
    return Checked(
        lost=last.open_counts.get("LOST", (0, 0))[1] if last else 0,
        prefixes=(last.evidence or {}).get("prefixes", 0) if last else 0,
        whole=c.execute(newest_whole).scalar_one(),
        running_since=c.execute(newest_running).scalar_one(),
        last=last.state if last else None,
    )


def _kind_statuses(
    db: Database, c: Connection, instance: str, kinds: Sequence[str], policy: Policy, now: int
) -> tuple[KindStatus, ...]:
    """Return the marks of some kinds, counted by one scan."""
    cutoffs = {kind: rules.cutoff(kind, policy, now) for kind in kinds}
    counts = _count_by_kind(db, c, instance, cutoffs)
    statuses = []
    for kind, cutoff in cutoffs.items():
        marks, oldest, due_marks, due_bytes = counts.get(kind, (0, None, 0, 0))
        setting = f"kinds.{kind}.retention_seconds"
        status = KindStatus(
            kind=kind,
            waiting=marks,
            due=due_marks,
            due_bytes=due_bytes,
            oldest=oldest,
            next_due=next_due(db, c, instance, kind, policy, now),
            note="" if cutoff is not None else f"kept: no retention is set for this kind; set {setting}",
        )
        statuses.append(status)
    return tuple(statuses)


def _count_by_kind(
    db: Database, c: Connection, instance: str, cutoffs: Mapping[str, int | None]
) -> Mapping[str, tuple[int, int, int, int]]:
    """Return by kind: how many marks wait, since when (ms since 1970), how many of them are due, and their bytes."""
    if not cutoffs:
        return {}
    mark = db.t.mark
    started = mark.c.retention_starts_at
    is_due = or_(*(and_(mark.c.kind == kind, started <= (cutoff or 0)) for kind, cutoff in cutoffs.items()))
    oldest, bytes_if_due = func.min(started, type_=started.type), case((is_due, mark.c.bytes), else_=0)
    waiting = and_(mark.c.instance == instance, in_list(mark.c.kind, list(cutoffs)), waits(mark))
    columns = (mark.c.kind, func.count(), oldest, func.count().filter(is_due), sum_of(bytes_if_due))
    return {kind: tuple(rest) for kind, *rest in c.execute(select(*columns).where(waiting).group_by(mark.c.kind))}
