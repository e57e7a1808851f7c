"""List everything that blocks deletions now: of one instance, or of all."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sexton.insight.views import Blocker
from sexton.insight.wording import quantity
from sexton.marks.keepers import KeepReason, Kept, by_plan, by_vault, describe, way_out
from sexton.recycle.model import NO_FAULT
from sexton.runtime.blockers.binlogs import binlog_blockers
from sexton.runtime.blockers.temporal import temporal_blockers
from sexton.runtime.blockers.topics import topic_blockers
from sexton.runtime.blockers.work import ALL_INSTANCES, control_blockers, work_blockers

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operators.registry.store import Instance
    from sexton.recycle.model import RoundReport

LISTED_AS_OF_NOW = (KeepReason.APPROVAL, KeepReason.QUARANTINED)
"""Reasons that have rows of their own, which do not need a round."""


class BlockerList(NamedTuple):
    """What blocks deletions. ``temporal_away``: Temporal did not answer, so what it knows is not listed."""

    rows: Sequence[Blocker]
    temporal_away: bool


def list_blockers(service: "Deployment", instance: str | None) -> BlockerList:
    """Return what blocks deletions of an instance, or of every one. Raise ``UnknownInstance``.

    All but the schedule, workers and waiting runs comes from the database.
    """
    registry = service.stores.registry
    instances = registry.instances() if instance is None else [registry.instance(instance)]
    rows = [b for i in instances for b in _instance_blockers(service, i)]
    if instance is None:  # blockers of all instances once, and first
        shared = {b.model_dump_json(): b for b in rows if b.instance == ALL_INSTANCES}
        rows = [*shared.values(), *(b for b in rows if b.instance != ALL_INSTANCES)]
    rows += topic_blockers(service, instance)
    from_temporal = temporal_blockers(service)
    of_instance = [b for b in from_temporal or () if instance is None or b.instance in (instance, ALL_INSTANCES)]
    return BlockerList([*of_instance, *rows], from_temporal is None)


def _instance_blockers(service: "Deployment", instance: "Instance") -> Iterator[Blocker]:
    if instance.mode == "observe":
        yield Blocker(
            instance=instance.id,
            held_by="observe",
            what="the whole instance",
            since=instance.created_at,
            why="it only observes",
            way_out=f"sexton enable {instance.id}",
        )
    for hold in service.stores.holds.active(instance.id):
        yield Blocker(
            instance=instance.id,
            held_by=str(hold.kept),
            what=hold.what,
            since=hold.placed_at,
            until=hold.expires_at,
            by=hold.placed_by,
            why=hold.reason,
            way_out=way_out(hold.kept, instance.id),
        )
    yield from _protections(service, instance.id)
    for cap in service.stores.paces.caps(instance.id):
        yield Blocker(
            instance=instance.id,
            held_by="cap",
            what=f"vault {cap.vault}: no more than {cap.keys_per_second:,} keys/s",
            since=cap.since,
            by=cap.set_by,
            why=cap.reason,
            way_out=f"sexton vault uncap {instance.id} {cap.vault}",
        )
    yield from control_blockers(service, instance.id)
    yield from _plans_waiting_for_approval(service, instance.id)
    yield from _waiting_round(service, instance.id)
    yield from work_blockers(service, instance.id)
    yield from _keepers_of_last_round(service, instance.id)
    yield from binlog_blockers(service, instance.id)


def _protections(service: "Deployment", instance: str) -> Iterator[Blocker]:
    from sexton.protection.model import ProtectionState

    for p in service.stores.protections.list_protections(instance):
        why = p.description or "sync job"
        if p.ends is not None:
            why = f"the next round ends it ({p.ends})"
        elif p.finished_at is not None:
            why = f"finished; waits for a watermark above {p.valid_ts}"
        yield Blocker(
            instance=instance,
            held_by=f"protection {p.job}",
            what="the objects it registered" if p.sealed is None else quantity(p.sealed.objects, "object"),
            since=p.registered_at,
            until=None if p.state is ProtectionState.SOFT else p.expires_at,
            by=p.owner,
            why=why,
            way_out=f"sexton protection release {p.job} --reason TEXT --instance {instance}",
        )


def _plans_waiting_for_approval(service: "Deployment", instance: str) -> Iterator[Blocker]:
    with service.db.read() as c:
        plans = service.stores.plans.approvals.waiting(c, instance)
    for plan in plans:
        yield Blocker(
            instance=instance,
            held_by=describe(by_plan(plan.id)),
            what=", ".join(plan.kinds),
            since=plan.since,
            until=plan.expires_at,
            why=plan.awaits,
            count=plan.marks,
        )


def _waiting_round(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the instance's running round if it has no lease."""
    states = {
        "paused": ("paused", f"sexton round resume {instance}"),
        "backing": ("backing off", f"sexton round retry {instance}"),
    }
    for row in service.stores.reports.rounds(instance, last=1):
        if row.ended_at is None and row.waiting:
            default = ("waiting", "it continues without help; see: sexton status")
            state, way_out = states.get(row.waiting.split()[0], default)
            yield Blocker(
                instance=instance,
                held_by=state,
                what=f"round {row.id}",
                since=row.waiting_since,
                why=row.waiting,
                way_out=way_out,
            )


def _keepers_of_last_round(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the keepers that the last report counted, except plans and quarantines, which are listed as of now."""
    for report in service.stores.reports.find_round(instance):
        for kept, n in sorted(report.kept.items()):
            if n and kept.reason not in LISTED_AS_OF_NOW:
                yield Blocker(
                    instance=instance,
                    held_by=describe(kept),
                    what=quantity(n, "mark"),
                    count=n,
                    since=report.ended_at,
                    why=f"counted by round {report.round}",
                    way_out=_way_out_now(service, kept, instance),
                )
        yield from _excluded_vaults(report)


def _excluded_vaults(report: "RoundReport") -> Iterator[Blocker]:
    """Yield the vaults at fault for which the round counted no mark: what falls due in them waits."""
    counted = {kept.subject for kept in report.kept if kept.reason is KeepReason.VAULT}
    for vault, state in sorted(report.vaults.items()):
        if state not in NO_FAULT and vault not in counted:
            keeper = by_vault(vault, state)
            yield Blocker(
                instance=report.instance,
                held_by=describe(keeper),
                what=f"vault {vault}",
                count=0,
                since=report.ended_at,
                why=f"excluded by round {report.round}",
                way_out=way_out(keeper, report.instance),
            )


def _way_out_now(service: "Deployment", kept: Kept, instance: str) -> str:
    """Return the way out of what a past round counted; one in force has a row and way out of its own."""
    if kept.reason is KeepReason.HOLD:
        blocking = {hold.kept.subject for hold in service.stores.holds.active(instance)}
    elif kept.reason is KeepReason.PROTECTION:
        blocking = {p.job for p in service.stores.protections.list_protections(instance)}
    else:
        return way_out(kept, instance)
    return "" if kept.subject in blocking else "it has ended since, and blocks nothing in the next round"
