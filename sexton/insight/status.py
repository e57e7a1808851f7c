"""Read the status of every instance for one screen, in few statements for any number of instances."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.insight.instances import InsightStores, read_instances
from sexton.insight.progress import read_work
from sexton.insight.views import Checked, InstanceStatus, KindStatus, Overview
from sexton.kernel.live import Live
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.registry.store import shows_live_objects
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import Cap
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import PlanRow, Policy
from sexton.recycle.planning.sql.measure import KindCount, count_by_kind, kinds_by_instance

T = TypeVar("T", Cap, PlanRow)


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

    Raises:
        UnknownInstance: there is no such instance.
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
        kinds, more_kinds = _kind_statuses(db, c, policies, now)
    statuses = []
    for instance in rows:
        name, running = instance.id, work.get(instance.id)
        status = InstanceStatus(
            instance=name,
            mode=instance.mode,
            now=now,
            running=running,
            next_round=stores.schedule.next_round_of(instance, now) if running is None else None,
            halt=halted(name),
            failures=instance.failures,
            last_success=instance.last_success_at,
            holds=instance.holds,
            kinds=tuple(kinds[name]),
            more_kinds=more_kinds[name],
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
    return Overview(slots_used=rows[0].slots_used if rows else 0, slots=slots, instances=tuple(statuses))


def _by_instance(values: Iterable[T]) -> defaultdict[str, list[T]]:
    """Return caps or plans by their instance."""
    lists: defaultdict[str, list[T]] = defaultdict(list)
    for value in values:
        lists[value.instance].append(value)
    return lists


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


def _kind_statuses(
    db: Database, c: Connection, policies: Mapping[str, Policy], now: int
) -> tuple[Mapping[str, Sequence[KindStatus]], Mapping[str, int]]:
    """Return the kinds of each instance with their marks, and how many kinds it has beside them, at least."""
    found = kinds_by_instance(db, c, {name: policy.retention_seconds for name, policy in policies.items()})
    kinds = [(name, kind) for name in found for kind in found[name].names]
    counts = count_by_kind(db, c, {(name, kind): rules.cutoff(kind, policies[name], now) for name, kind in kinds})
    statuses: dict[str, list[KindStatus]] = {name: [] for name in found}
    for name, kind in kinds:
        retention, count = policies[name].retention(kind), counts.get((name, kind), KindCount())
        setting = f"kinds.{kind}.retention_seconds"
        status = KindStatus(
            **count._asdict(),
            kind=kind,
            next_due=None if retention is None or count.following is None else count.following + 1000 * retention,
            note="" if retention is not None else f"kept: no retention is set for this kind; set {setting}",
        )
        statuses[name].append(status)
    return statuses, {name: found[name].more for name in found}
