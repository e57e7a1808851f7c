"""List everything that blocks deletions now: of one instance, or of all."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from sexton.check.model import Run, RunState
from sexton.insight.status import problems, worst_first
from sexton.insight.views import ALL_INSTANCES, PAUSED
from sexton.insight.wording import quantity
from sexton.marks.kept import FAULTS, LISTED_AS_OF_NOW, Blocker, KeepReason, Kept, Severity, describe, way_out
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.policy import all_halts, vault_allowed, vault_whitelist
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.policy import vault_of
from sexton.recycle.planning.sql.measure import count_quarantined
from sexton.runtime.blockers.logs import binlog_blockers, topic_blockers

if TYPE_CHECKING:
    from sexton.insight.views import InstanceStatus
    from sexton.runtime.deployment import Deployment

REFUSED_MS = 60_000
"""After a refusal requests pause for 8 s at most, so a store that has refused none for so long accepts them again."""
LONG_CHECK_MS = 86_400_000
"""A check that has run for longer than this has probably lost its workflow."""
NOT_ASKED = (
    "Temporal did not answer: schedule, workers, paused checks, purges and binlog GCs are not listed. "
    "While it is away, no round begins; see: sexton doctor"
)


class BlockerList(NamedTuple):
    """What blocks deletions. ``temporal_away``: Temporal did not answer. ``logs``: the rows of topics and binlogs."""

    rows: Sequence[Blocker]
    temporal_away: bool
    logs: Sequence[Blocker] = ()


def list_blockers(service: "Deployment", instance: str | None) -> BlockerList:
    """Return what blocks deletions of an instance, or of every one, the worst first. Raise ``UnknownInstance``.

    All but the schedule, workers and waiting runs comes from the database.
    """
    from sexton.runtime.temporal.waiting import temporal_blockers  # Temporal's client takes half a second

    known = service.status(instance).instances
    from_temporal = temporal_blockers(service)
    rows = [b for b in from_temporal or () if instance is None or b.instance in (instance, ALL_INSTANCES)]
    if from_temporal is not None:  # it knows better which workers poll
        known = tuple(_without_what_temporal_knows(status) for status in known)
    rows += service.ignored_settings(instance)
    rows += [b for status in known for b in _instance_blockers(service, status)]
    logs = [b for status in known for b in binlog_blockers(service, status.instance)]
    logs += topic_blockers(service, instance)
    return BlockerList(worst_first([*rows, *logs]), from_temporal is None, logs)


def _without_what_temporal_knows(status: "InstanceStatus") -> "InstanceStatus":
    update: dict[str, object] = {"has_worker": True, "schedule": ""}
    if status.schedule.startswith(PAUSED):  # its round is not overdue: none was to begin
        update["overdue_since"] = None
    return status.model_copy(update=update)


def _instance_blockers(service: "Deployment", status: "InstanceStatus") -> Iterator[Blocker]:
    stores, instance = service.stores, status.instance
    with service.db.read() as c:
        now, controls = service.db.now(c), stores.controls.all_in(c)
        counts = count_quarantined(service.db, c, instance)
    oldest: dict[Kept | None, int] = {Kept(KeepReason.QUARANTINED, why): n.since for why, n in counts.items()}
    for problem in problems(status, all_halts(controls, instance, now)):
        since = {"since": oldest.get(problem.kept), "why": "since: when the oldest of them was marked"}
        # LOST blocks nothing; the vaults that the list leaves out are below, as of now.
        if problem.severity is not Severity.LOST and problem.kept != Kept(KeepReason.VAULT_WHITELIST):
            yield problem.model_copy(update=since if problem.kept in oldest else {})
    kept_now = [b for keeper in stores.keepers for b in keeper.in_force(instance)]
    yield from kept_now
    for cap in status.caps:
        yield Blocker(
            instance=instance,
            held_by="cap",
            what=f"vault {cap.vault}: no more than {cap.keys_per_second:,} keys/s",
            since=cap.since,
            by=cap.set_by,
            why=cap.reason,
            way_out=f"sexton vault uncap {instance} {cap.vault}",
        )
    whitelist = vault_whitelist(controls)
    entries = [c for c in controls if c.kind is ControlKind.VAULT_WHITELIST]
    for vault in stores.registry.vaults(instance):
        if not vault_allowed(whitelist, instance, vault.name):
            yield Blocker(
                severity=Severity.HALTED,
                instance=instance,
                held_by="vault whitelist",
                what=f"vault {vault.name}",
                since=max((c.since for c in entries if c.since), default=None),
                why=f"{instance}/{vault.name} is not on the list vaults, which is not empty",
                way_out=f"sexton lists add vaults {instance}/{vault.name}",
            )
    yield from _throttled(service, instance, now)
    yield from _checks(service, instance, now)
    if status.last is not None:
        yield from _keepers_of_last_round(service, status.last, {b.held_by for b in kept_now})


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


def _keepers_of_last_round(service: "Deployment", report: RoundReport, kept_now: Set[str]) -> Iterator[Blocker]:
    """Yield the keepers that the last report counted, except those whose rows are among the instance's problems.

    ``kept_now``: what keepers list as in force.
    """
    listed = {keeper.lists for keeper in service.stores.keepers}
    for kept, n in sorted(report.kept.items()):
        if n and kept.reason not in (*LISTED_AS_OF_NOW, *FAULTS, KeepReason.UNKNOWN_KIND):
            todo = way_out(kept, report.instance)
            if kept.reason in listed:  # one in force has a row and a way out of its own
                is_in_force = describe(kept._replace(detail="")) in kept_now
                todo = "" if is_in_force else "it has ended since, and blocks nothing in the next round"
            yield Blocker(
                instance=report.instance,
                held_by=describe(kept),
                what=quantity(n, "mark"),
                count=n,
                since=report.ended_at,
                why=f"counted by round {report.round}",
                way_out=todo,
            )
