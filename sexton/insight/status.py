"""Read the status of every instance in few statements, and name what is wrong by it, the worst first."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    exists,
    func,
    select,
    true,
    type_coerce,
)

from sexton.check.model import RunState
from sexton.database.engine import Database, now_once
from sexton.database.guard import UnknownInstance
from sexton.database.tables.columns import Instant
from sexton.insight.kinds import kind_statuses
from sexton.insight.progress import ABSENT_MS, read_work
from sexton.insight.views import ALL_INSTANCES, PAUSED, Checked, InstanceStatus, Overview, Running
from sexton.insight.wording import quantity, utc
from sexton.kernel.live import Live
from sexton.marks.kept import FAULTS, WAITS, Blocker, KeepReason, Kept, Severity, Wait, by_plan, by_vault, way_out
from sexton.marks.model import Reason
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.leases import busy
from sexton.marks.sql.rows import CLAIMED
from sexton.operators.controls.model import ALL, Halt
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.registry.store import shows_live_objects
from sexton.operators.stores import OperatorStores
from sexton.protection.model import ProtectionState
from sexton.recycle.model import CANCELLED, DAY_MS, FAILED, JOB, NO_FAULT, STOPPED, RoundReport
from sexton.recycle.pacing.model import Cap
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import PlanRow, Policy
from sexton.recycle.planning.sql.approvals import ApprovalStore
from sexton.recycle.rounds.sql.reports import RUNNING, RoundSchedule
from sexton.storage.port import NOT_LISTED

if TYPE_CHECKING:
    from sexton.insight.metrics.model import WalFigures
    from sexton.replication.binlog.model import LogCounts


class InsightStores(NamedTuple):
    """Where status, metrics and explanations get their facts, beside the rows that they read themselves."""

    operators: OperatorStores
    """Instances, vaults, stops, lists, windows and holds."""
    schedule: RoundSchedule
    """When each instance has its next round."""
    approvals: ApprovalStore
    """Plans that wait for approval."""
    paces: PaceStore
    """How fast each place is deleted from, and operators' caps."""
    keepers: Sequence[Keeper]
    """What may block a deletion, in order of precedence."""


def read_instances(db: Database, c: Connection, only: str | None = None) -> Sequence[Row[Any]]:
    """Return the rows of one instance or of all, in the order of their names.

    Columns: those of ``instance``; ``now``; ``slots_used``, the leases in use over all instances; ``report`` and
    ``ended_at`` of the newest round that has a report; ``open_counts``, ``evidence`` and ``check_state`` of the last
    check that has ended; the others as in ``InstanceFigures``. Instants are ms since 1970.
    """
    instance, round_, run = db.t.instance, db.t.round, db.t.check_run
    t_worker = db.t.worker_presence
    # The machine's clock, without the offset of tests: a process that runs does not become absent by that.
    seen_since = func.clock_timestamp() - dt.timedelta(milliseconds=ABSENT_MS)
    is_present = and_(t_worker.c.role == "control", t_worker.c.seen_at > type_coerce(seen_since, Instant()))
    newest_round = _newest(db, round_.alias(), "report")
    last_check = _newest(db, run.alias(), "open_counts")
    query = select(
        instance,
        now_once().label("now"),
        select(func.count()).where(busy(db.t.lease, JOB)).scalar_subquery().label("slots_used"),
        select(db.t.clock.c.schedule).scalar_subquery().label("schedule"),
        exists(select(t_worker.c.worker).where(is_present)).label("has_worker"),
        exists(select(t_worker.c.worker).where(is_present, t_worker.c.reaches_temporal)).label("has_temporal"),
        round_.c.report,
        round_.c.ended_at,
        run.c.open_counts,
        run.c.evidence,
        run.c.state.label("check_state"),
        *_counts(db),
    )
    with_newest = instance.outerjoin(round_, round_.c.id == newest_round).outerjoin(run, run.c.id == last_check)
    is_selected = true() if only is None else instance.c.id == only
    return c.execute(query.select_from(with_newest).where(is_selected).order_by(instance.c.id)).all()


def _newest(db: Database, table: Any, filled: str) -> ColumnElement[int]:
    """Return the number of an instance's newest row in which a column has a value."""
    instance = db.t.instance
    rows = select(table.c.id).where(table.c.instance == instance.c.id, table.c[filled].is_not(None))
    return rows.order_by(table.c.id.desc()).limit(1).correlate(instance).scalar_subquery()


def _counts(db: Database) -> Iterator[ColumnElement[Any]]:
    """Yield the columns that are counted in other tables."""
    t, instance = db.t, db.t.instance

    def of(table: Table, value: ColumnElement[Any], *conditions: ColumnElement[bool]) -> ColumnElement[Any]:
        rows = select(value).select_from(table).where(table.c.instance == instance.c.id, *conditions)
        return rows.correlate(instance).scalar_subquery()

    number = func.count()
    yield of(t.mark, number, t.mark.c.state == CLAIMED).label("claimed")
    second_pass = of(t.mark, number, t.mark.c.state == CLAIMED, t.mark.c.first_pass_at.is_not(None))
    yield second_pass.label("awaiting_second_pass")
    # Quarantined marks by reason, as JSON: one range of the index.
    reason = t.mark.c.quarantined_reason
    counted = select(reason.label("reason"), number.label("marks")).group_by(reason)
    counted = counted.where(t.mark.c.instance == instance.c.id, reason.is_not(None))
    by_reason = counted.correlate(instance).subquery()
    as_json = func.json_object_agg(by_reason.c.reason, by_reason.c.marks, type_=JSON())
    yield select(as_json).scalar_subquery().label("quarantined")
    active = t.hold.c.released_at.is_(None), t.hold.c.expires_at > now_once()
    yield of(t.hold, number, *active).label("holds")
    yield of(t.hold, func.min(t.hold.c.placed_at), *active).label("oldest_hold")
    recent = t.batch.c.limited_objects > 0, t.batch.c.claimed_at > now_once(-DAY_MS)
    yield of(t.batch, func.coalesce(func.sum(t.batch.c.limited_objects), 0), *recent).label("unasked_objects")
    soft = t.protection.c.state == ProtectionState.SOFT
    yield of(t.protection, number, ~soft).label("protections")
    yield of(t.protection, number, soft).label("soft_protections")
    yield of(t.protection, func.min(t.protection.c.registered_at)).label("oldest_protection")
    run, began = t.check_run, func.max(t.check_run.c.cutoff)
    yield of(run, began, run.c.state == RunState.WHOLE).label("whole_check")
    yield of(run, began, run.c.state == RUNNING).label("check_since")


T = TypeVar("T", Cap, PlanRow)


def overview(
    db: Database, stores: InsightStores, policy: Policy | Live[Policy], slots: int, only: str | None = None
) -> Overview:
    """Return the status of one instance, or of every one; raise ``UnknownInstance``.

    ``policy``: the settings in force, by which marks are due.
    ``slots``: how many rounds may run at once. ``only``: the instance; None: every one.
    """
    live_policy = Live.of(policy)
    live_policy()  # read again before the transaction, if it is old
    caps = _by_instance(stores.paces.caps(only))
    with db.read() as c:
        rows = read_instances(db, c, only)
        if only is not None and not rows:
            raise UnknownInstance(only)
        now = rows[0].now if rows else 0
        halted, work = halt_by_instance(stores.operators.controls.all_in(c), now), read_work(db, c)
        approvals = _by_instance(stores.approvals.waiting(c, only))
        policies = {row.id: rules.for_owner(live_policy(row.id), row.owner) for row in rows}
        kinds, more_kinds = kind_statuses(db, c, policies, now)
        everyone = rows
        if only is not None and stores.schedule.overdue(rows, 1, now):  # others may wait for the same slots
            everyone = c.execute(select(db.t.instance)).all()
        ready = [row for row in everyone if row.id not in work and halted(row.id) is None]
    slots_used = rows[0].slots_used if rows else 0
    overdue = stores.schedule.overdue(ready, slots - slots_used, now)
    statuses = []
    for instance in rows:
        name, running = instance.id, work.get(instance.id)
        status = InstanceStatus(
            instance=name,
            mode=instance.mode,
            now=now,
            running=running,
            next_round=stores.schedule.next_round_of(instance, now) if running is None else None,
            overdue_since=overdue.get(name),
            schedule=instance.schedule,
            has_worker=instance.has_worker,
            has_temporal=instance.has_temporal,
            halt=halted(name),
            failures=instance.failures,
            last_success=instance.last_success_at,
            holds=instance.holds,
            kinds=tuple(kinds.get(name, ())),
            more_kinds=more_kinds.get(name, 0),
            claimed=instance.claimed,
            late=instance.awaiting_second_pass,
            quarantined=instance.quarantined or {},
            approvals=tuple(approvals[name]),
            caps=tuple(caps[name]),
            checked=Checked(
                lost=(instance.open_counts or {}).get("LOST", (0, 0))[1],
                prefixes=(instance.evidence or {}).get("prefixes", 0),
                whole=instance.whole_check,
                running_since=instance.check_since,
                last=instance.check_state,
            ),
            live_view=instance.live_view,
            shows_live_objects=shows_live_objects(instance),
            protections=instance.protections + instance.soft_protections,
            last=None if instance.report is None else RoundReport.model_validate(instance.report),
            last_ended=instance.ended_at,
        )
        statuses.append(status)
    return Overview(slots_used=slots_used, slots=slots, instances=tuple(statuses))


def _by_instance(values: Iterable[T]) -> defaultdict[str, list[T]]:
    """Return caps or plans by their instance."""
    lists: defaultdict[str, list[T]] = defaultdict(list)
    for value in values:
        lists[value.instance].append(value)
    return lists


def problems(i: InstanceStatus, halts: Iterable[Halt] = ()) -> Iterator[Blocker]:
    """Yield what is wrong with an instance, and what operators ordered: status, console, blockers and doctor show it.

    ``halts``: what halts it besides ``InstanceStatus.halt``.
    """
    rows = [*_of_workers(i), *_known(i, halts)]
    yield from rows or _late(i)


ORDERED = (KeepReason.HOLD, KeepReason.PROTECTION)
"""Why marks are kept on order: of an operator, or of a job that copies."""


def _late(i: InstanceStatus) -> Iterator[Blocker]:
    """Yield that marks have been due for a day, though a round has ended since, or while a capped one runs."""
    since = [kind.due_since for kind in i.kinds if kind.due_since is not None and kind.due_since < i.now - DAY_MS]
    marks = sum(kind.due for kind in i.kinds)
    if i.running is not None and i.running.since < i.now - DAY_MS:  # what it has claimed is not counted as due
        since, marks = [*since, i.running.since], marks + i.claimed
    if not since:
        return
    name, what, todo = i.instance, quantity(marks, "mark"), f"sexton blockers {i.instance}"
    severity, why = Severity.OVERDUE, "due for more than a day"
    counts = i.last.kept if i.last is not None and (i.last_ended or 0) > min(since) else {}
    # What nothing has ordered is named first, however few they are.
    answer = max(counts, key=lambda kept: (kept.reason not in ORDERED, counts[kept]), default=None)
    if answer is not None and (i.running is None or answer.reason is KeepReason.LIVE):
        severity = Severity.HALTED if answer.reason in ORDERED else severity
        kept_marks = sum(n for kept, n in counts.items() if kept.key == answer.key)
        why, todo = f"{why}; the last round kept {kept_marks:,}: {answer.key}", way_out(answer, name) or todo
    elif i.running is not None:
        if not i.caps:
            return  # it deletes them
        cap, severity = i.caps[0], Severity.HALTED
        why = f"{why}; vault {cap.vault} is capped at {cap.keys_per_second:,} keys/s"
        todo = f"sexton vault uncap {name} {cap.vault}"
    elif i.last is None or i.last_ended is None or i.last_ended <= min(since):
        return  # if no round begins, it is overdue
    yield _row(severity, name, "late", what, todo, why=why, since=min(since))


def _of_workers(i: InstanceStatus) -> Iterator[Blocker]:
    if i.mode == "enabled" and not (i.has_worker and i.has_temporal):
        held_by, why, todo = "no worker", "no worker reports to the database: nothing is deleted", "sexton worker run"
        if i.has_worker:
            held_by, why, todo = "no Temporal", "no worker reaches Temporal: no round begins", "sexton doctor"
        yield _row(Severity.OVERDUE, ALL_INSTANCES, held_by, "everything", todo, why=why)
    if i.schedule.startswith(PAUSED):
        what, todo = "all rounds, checks, purges and binlog GCs", "sexton schedules resume"
        why = i.schedule.removeprefix(PAUSED)
        yield _row(Severity.HALTED, ALL_INSTANCES, "paused schedule", what, todo, why=why)


def _known(i: InstanceStatus, halts: Iterable[Halt]) -> Iterator[Blocker]:
    name = i.instance
    if i.checked.lost:
        what = f"{quantity(i.checked.lost, 'object')}, confirmed"
        yield _row(Severity.LOST, name, "LOST", what, f"sexton check findings {name} --type LOST")
    if i.last is not None:
        yield from _of_last_round(i, i.last)
    if i.running is not None:
        yield from _of_running_round(name, i.running)
    for reason, marks in sorted(i.quarantined.items()):
        kept = Kept(KeepReason.QUARANTINED, reason)
        retry = f"once the cause is gone: sexton quarantine retry {name} --reason {reason}"
        then = "then decide for each: sexton quarantine discard, or retry" if reason == Reason.CHANGED else retry
        todo = f"{way_out(kept, name)} --reason {reason}; {then}"
        yield _row(Severity.QUARANTINED, name, str(kept), quantity(marks, "mark"), todo, count=marks, kept=kept)
    for halt in dict.fromkeys(filter(None, (i.halt, *halts))):
        of, what = (ALL_INSTANCES, "everything") if halt.scope == ALL else (name, "the whole instance")
        since = {"since": halt.since, "until": halt.until}
        yield _row(Severity.HALTED, of, halt.by, what, halt.todo, why=halt.why, **since)
    if i.overdue_since is not None and i.halt is None and not i.schedule.startswith(PAUSED):
        why = "it has not begun: no schedule, a paused one, no worker, or no Temporal"
        yield _row(Severity.OVERDUE, name, "overdue", "the next round", "sexton doctor", since=i.overdue_since, why=why)
    for plan in i.approvals:
        kept, more = by_plan(plan.id), {"since": plan.since, "until": plan.expires_at, "count": plan.marks}
        kinds = ", ".join(plan.kinds)
        yield _row(Severity.APPROVAL, name, str(kept), kinds, way_out(kept, name), why=plan.awaits, **more)
    if i.mode == "observe":
        todo = f"sexton enable {name}"
        yield _row(Severity.OBSERVES, name, "observe", "the whole instance", todo, why="it only observes")


def _row(severity: Severity, instance: str, held_by: str, what: str, todo: str, **more: Any) -> Blocker:
    return Blocker(severity=severity, instance=instance, held_by=held_by, what=what, way_out=todo, **more)


def _of_last_round(i: InstanceStatus, last: RoundReport) -> Iterator[Blocker]:
    """Yield what the last round could not use, also vaults for which it counted no mark, and its error."""
    faults = {kept: marks for kept, marks in sorted(last.kept.items()) if marks and kept.reason in FAULTS}
    counted = {kept.subject for kept in last.kept if kept.reason is KeepReason.VAULT}
    excluded = [by_vault(v, s) for v, s in sorted(last.vaults.items()) if s not in NO_FAULT and v not in counted]
    for kept, marks in (faults | dict.fromkeys(excluded, 0)).items():
        what = quantity(marks, "mark") if marks else f"vault {kept.subject}"
        answer = last.fault_details.get(kept.subject) if kept.reason is KeepReason.VAULT else ""
        why = ": ".join(filter(None, (f"{'counted' if marks else 'excluded'} by round {last.round}", answer)))
        more = {"count": marks, "since": i.last_ended, "key": kept.key}
        yield _row(Severity.FAULT, i.instance, str(kept), what, way_out(kept, i.instance), why=why, **more)
    if unlisted := [vault for vault, state in sorted(last.vaults.items()) if state == NOT_LISTED]:
        what, todo = f"vault {', '.join(unlisted)}", "sexton lists show vaults"
        of = {"kept": Kept(KeepReason.VAULT_WHITELIST), "why": f"as round {last.round} found"}
        yield _row(Severity.HALTED, i.instance, "vault whitelist", what, todo, **of)
    for kept, marks in sorted(last.kept.items()):
        if marks and kept.reason is KeepReason.UNKNOWN_KIND:
            what, todo = quantity(marks, "mark"), way_out(kept, i.instance)
            yield _row(Severity.APPROVAL, i.instance, str(kept), what, todo, count=marks, since=i.last_ended)
    if last.state == FAILED or (i.failures and last.state in (CANCELLED, STOPPED)):
        what, todo = f"{quantity(max(1, i.failures), 'round')} without success", f"sexton round show {last.round}"
        yield _row(Severity.FAILED, i.instance, "failed round", what, todo, why=last.error, since=i.last_ended)


def _of_running_round(instance: str, run: Running) -> Iterator[Blocker]:
    """Yield why a round that has not ended does not work."""
    what = f"round {run.round}" if run.round else "a round"
    if run.cut_off:
        why = "no worker renewed its lease: a worker continues it, once one runs and reaches Temporal and the database"
        yield _row(Severity.OVERDUE, instance, "lost lease", what, "sexton doctor", why=why, since=run.since)
    elif run.waiting:
        wait, todo = WAITS.get(run.wait, Wait()), "it continues without help; see: sexton status"
        todo = f"sexton round {wait.signal} {instance}" if wait.signal else todo
        yield _row(wait.severity, instance, wait.text, what, todo, why=run.waiting, since=run.waiting_since)


def log_problems(topics: "WalFigures", binlogs: "LogCounts") -> Iterator[Blocker]:
    """Yield what is wrong with the topics and binlogs of all instances."""
    for severity, held_by, count, noun, todo in (
        (Severity.LOST, "topics, LOSS", topics.lost_regions, "region", "sexton wal list"),
        (Severity.LOST, "binlogs, LOST", binlogs.lost, "consumer", "sexton binlog consumers"),
        (Severity.FAULT, "topics, log fault", topics.faulty, "topic", "sexton wal list"),
        (Severity.FAULT, "binlogs, clock", binlogs.refused, "instance", "sexton binlog list"),
        (Severity.QUARANTINED, "topics, quarantine", topics.quarantined, "topic", "sexton wal list"),
        (Severity.APPROVAL, "binlogs, approval", binlogs.waiting, "cut", "sexton binlog list"),
    ):
        if count:
            yield _row(severity, ALL_INSTANCES, held_by, quantity(count, noun), todo, count=count)


def worst_first(rows: Iterable[Blocker]) -> list[Blocker]:
    """Return each row once, the worst first; those of one severity stay in their order."""
    return sorted(dict.fromkeys(rows), key=attrgetter("severity"))


def sentence(rows: Iterable[Blocker], instances: Sequence[InstanceStatus]) -> str:
    """Return whether all is well, or the worst of the problems of instances and logs with its way out."""
    known = [row for row in worst_first(rows) if row.severity is not Severity.OTHER]
    if known:
        text = f"{', the worst first' if len(known) > 1 else ''}: {known[0]}. Way out: {known[0].way_out}"
        if all(row.severity.is_ordered for row in known):
            return f"Nothing is wrong, but {quantity(len(known), 'order blocks', 'orders block')} deletions{text}"
        return f"{quantity(len(known), 'thing needs', 'things need')} an operator{text}"
    if not instances:
        return "no instance is registered; begin with: sexton instance add NAME"
    due_at, name = min((i.now if i.next_round is None else i.next_round, i.instance) for i in instances)
    when = "runs or is due now" if due_at <= max(i.now for i in instances) else f"is due at {utc(due_at)}"
    holds = sum(i.holds for i in instances)
    in_force = f"; {quantity(holds, 'hold')} in force" if holds else ""
    return f"All is well: the next round, of {name}, {when}{in_force}"
