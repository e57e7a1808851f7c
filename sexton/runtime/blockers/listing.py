"""List everything that blocks deletions now: of one instance, or of all."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from sexton.check.model import Run, RunState
from sexton.insight.progress import CUT_OFF, read_running
from sexton.insight.status import count_quarantined
from sexton.insight.views import ALL_INSTANCES
from sexton.insight.wording import quantity
from sexton.marks.kept import LISTED_AS_OF_NOW, Blocker, KeepReason, Kept, by_plan, by_vault, describe, way_out
from sexton.marks.model import Reason
from sexton.operators.controls.model import ALL, Control, ControlKind
from sexton.operators.controls.policy import all_halts, vault_allowed, vault_whitelist
from sexton.recycle.model import NO_FAULT
from sexton.recycle.pacing.policy import vault_of
from sexton.runtime.blockers.logs import binlog_blockers, topic_blockers
from workflows import ids

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operators.registry.store import Instance

REFUSED_MS = 60_000
"""After a refusal requests pause for 8 s at most, so a store that has refused none for so long accepts them again."""
LONG_CHECK_MS = 86_400_000
"""A check that has run for longer than this has probably lost its workflow."""
NOT_ASKED = (
    "Temporal did not answer: schedule, workers, paused checks, purges and binlog GCs are not listed. "
    "While it is away, no round begins; see: sexton doctor"
)


class BlockerList(NamedTuple):
    """What blocks deletions. ``temporal_away``: Temporal did not answer, so what it knows is not listed."""

    rows: Sequence[Blocker]
    temporal_away: bool


def list_blockers(service: "Deployment", instance: str | None) -> BlockerList:
    """Return what blocks deletions of an instance, or of every one. Raise ``UnknownInstance``.

    All but the schedule, workers and waiting runs comes from the database.
    """
    from sexton.runtime.temporal.waiting import temporal_blockers  # Temporal's client takes half a second

    registry, overdue = service.stores.registry, service.stores.round_schedule.overdue()
    instances = registry.instances() if instance is None else [registry.instance(instance)]
    rows = [b for i in instances for b in _instance_blockers(service, i)]
    for name, since in overdue.items():  # also while Temporal is away
        if instance in (None, name):
            why = "it has not begun: no schedule, a paused one, no worker, or no Temporal"
            what: dict[str, Any] = {"held_by": "overdue", "what": "the next round", "way_out": "sexton doctor"}
            rows.append(Blocker(instance=name, since=since, why=why, **what))
    if instance is None:  # blockers of all instances once, and first
        shared = {b.model_dump_json(): b for b in rows if b.instance == ALL_INSTANCES}
        rows = [*shared.values(), *(b for b in rows if b.instance != ALL_INSTANCES)]
    rows += topic_blockers(service, instance)
    from_temporal = temporal_blockers(service)
    of_instance = [b for b in from_temporal or () if instance is None or b.instance in (instance, ALL_INSTANCES)]
    return BlockerList([*of_instance, *rows], from_temporal is None)


def _instance_blockers(service: "Deployment", instance: "Instance") -> Iterator[Blocker]:
    stores = service.stores
    with service.db.read() as c:
        now, controls = service.db.now(c), stores.controls.all_in(c)
        plans = stores.plans.approvals.waiting(c, instance.id)
        quarantined = count_quarantined(service.db, c, instance.id)
    if instance.mode == "observe":
        yield Blocker(
            instance=instance.id,
            held_by="observe",
            what="the whole instance",
            since=instance.created_at,
            why="it only observes",
            way_out=f"sexton enable {instance.id}",
        )
    kept_now = [b for keeper in stores.keepers for b in keeper.in_force(instance.id)]
    yield from kept_now
    for cap in stores.paces.caps(instance.id):
        yield Blocker(
            instance=instance.id,
            held_by="cap",
            what=f"vault {cap.vault}: no more than {cap.keys_per_second:,} keys/s",
            since=cap.since,
            by=cap.set_by,
            why=cap.reason,
            way_out=f"sexton vault uncap {instance.id} {cap.vault}",
        )
    yield from _controls(service, instance.id, controls, now)
    for plan in plans:
        yield Blocker(
            instance=instance.id,
            held_by=describe(by_plan(plan.id)),
            what=", ".join(plan.kinds),
            since=plan.since,
            until=plan.expires_at,
            why=plan.awaits,
            count=plan.marks,
        )
    yield from _waiting_round(service, instance.id)
    for reason, marks in sorted(quarantined.items()):  # now: a round counts only those that it found quarantined
        kept = Kept(KeepReason.QUARANTINED, reason)
        retry = f"once the cause is gone: sexton quarantine retry {instance.id} --reason {reason}"
        then = "then decide for each: sexton quarantine discard, or retry" if reason == Reason.CHANGED else retry
        yield Blocker(
            instance=instance.id,
            held_by=describe(kept),
            what=quantity(marks.marks, "mark"),
            since=marks.since,
            count=marks.marks,
            why="since: when the oldest of them was marked",
            way_out=f"{way_out(kept, instance.id)} --reason {reason}; {then}",
        )
    for work in read_running(service.db, instance.id):
        if work.state == CUT_OFF:
            yield Blocker(
                instance=instance.id,
                held_by="no worker",
                what=f"round {work.name}",
                since=work.since,
                why="it lost its lease",
                way_out="sexton doctor",
            )
    yield from _throttled(service, instance.id, now)
    yield from _checks(service, instance.id, now)
    yield from _keepers_of_last_round(service, instance.id, {b.held_by for b in kept_now})
    yield from binlog_blockers(service, instance.id)


def _controls(service: "Deployment", instance: str, controls: tuple[Control, ...], now: int) -> Iterator[Blocker]:
    """Yield the controls that halt the instance, then its vaults that are not on the vault whitelist."""
    for name, halted in all_halts(controls, instance, now):
        yield Blocker(
            instance=ALL_INSTANCES if name == ALL else instance,
            held_by=halted.by,
            what="everything" if name == ALL else "the whole instance",
            since=halted.since,
            until=halted.until,
            why=halted.why,
            way_out=halted.todo,
        )
    whitelist = vault_whitelist(controls)
    entries = [c for c in controls if c.kind is ControlKind.VAULT_WHITELIST]
    for vault in service.stores.registry.vaults(instance):
        if not vault_allowed(whitelist, instance, vault.name):
            yield Blocker(
                instance=instance,
                held_by="vault whitelist",
                what=f"vault {vault.name}",
                since=max((c.since for c in entries if c.since), default=None),
                why=f"{instance}/{vault.name} is not on the list vaults, which is not empty",
                way_out=f"sexton lists add vaults {instance}/{vault.name}",
            )


def _waiting_round(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the instance's running round if it has no lease."""
    for row in service.stores.reports.rounds(instance, last=1):
        if row.ended_at is None and row.waiting:
            wait = next((wait for wait in ids.WAITS.values() if row.waiting.startswith(wait.text)), None)
            todo = f"sexton round {wait.signal} {instance}" if wait else "it continues without help; see: sexton status"
            yield Blocker(
                instance=instance,
                held_by=wait.text if wait else "waiting",
                what=f"round {row.id}",
                since=row.waiting_since,
                why=row.waiting,
                way_out=todo,
            )


def _throttled(service: "Deployment", instance: str, now: int) -> Iterator[Blocker]:
    """Yield the vaults whose stores refused requests just now: a round over them hardly moves, and shows no error."""
    vaults, endpoint_url = service.stores.registry.vaults(), service.settings.s3.endpoint_url
    refused = [f for f in service.stores.paces.figures() if (f.throttled_at or 0) > now - REFUSED_MS]
    counts = Counter(vault_of(figures.place, vaults, endpoint_url) for figures in refused)
    for (owner, name), places in sorted((at, n) for at, n in counts.items() if at is not None):
        if owner == instance:
            yield Blocker(
                instance=instance,
                held_by="throttling",
                what=f"vault {name}: {quantity(places, 'place')}",
                why="its store refused requests within the last minute; deletes wait, and are repeated",
                way_out="sexton pace",
            )


def _checks(service: "Deployment", instance: str, now: int) -> Iterator[Blocker]:
    """Yield checks that prove nothing, or do not end."""
    runs = service.stores.checks.runs(instance, 2)
    for run in runs:
        if run.state is RunState.RUNNING and run.cutoff <= now - LONG_CHECK_MS:
            yield _check(run, "it has not ended", f"sexton check cancel {instance}, then: sexton check run {instance}")
    ended = next((run for run in runs if run.state is not RunState.RUNNING), None)
    if ended is not None and ended.state is RunState.PARTIAL:
        yield _check(ended, "; ".join(ended.missing_inputs), f"sexton check show {ended.id}")


def _check(run: Run, why: str, way_out: str) -> Blocker:
    return Blocker(
        instance=run.instance,
        held_by="incomplete check",
        what=f"check {run.id}: orphans, and confirmation of losses",
        since=run.cutoff,
        why=why,
        way_out=way_out,
    )


def _keepers_of_last_round(service: "Deployment", instance: str, kept_now: Set[str]) -> Iterator[Blocker]:
    """Yield the keepers that the last report counted, except plans and quarantines, which are listed as of now.

    Then the vaults at fault for which the round counted no mark: what falls due in them waits.
    ``kept_now``: what keepers list as in force.
    """
    for report in service.stores.reports.find_round(instance):
        for kept, n in sorted(report.kept.items()):
            if n and kept.reason not in LISTED_AS_OF_NOW:
                todo = way_out(kept, instance)
                if kept.reason in {
                    keeper.lists for keeper in service.stores.keepers
                }:  # one in force has a row and a way out of its own
                    is_in_force = describe(kept._replace(detail="")) in kept_now
                    todo = "" if is_in_force else "it has ended since, and blocks nothing in the next round"
                answer = report.fault_details.get(kept.subject) if kept.reason is KeepReason.VAULT else ""
                yield Blocker(
                    instance=instance,
                    held_by=describe(kept),
                    what=quantity(n, "mark"),
                    count=n,
                    since=report.ended_at,
                    why=": ".join(filter(None, (f"counted by round {report.round}", answer))),
                    way_out=todo,
                )
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
                    why=": ".join(filter(None, (f"excluded by round {report.round}", report.fault_details.get(vault)))),
                    way_out=way_out(keeper, report.instance),
                )
