"""List what blocks an instance's rounds and marks now: stops, lists, windows, quarantine, lost workers, checks."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.insight.views import Blocker
from sexton.insight.wording import quantity
from sexton.marks.keepers import KeepReason, Kept, describe, way_out
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt

if TYPE_CHECKING:
    from sexton.check.model import Run
    from sexton.deployment import Deployment


REFUSED_MS = 60_000
"""After a refusal requests pause for 8 s at most, so a store that has refused none for so long accepts them again."""
LONG_CHECK_MS = 86_400_000
"""A check that has run for longer than this has probably lost its workflow."""


def work_blockers(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield quarantined marks, lost rounds, stores that refuse, and checks that prove nothing or do not end."""
    from sexton.insight.progress import CUT_OFF, read_running

    yield from _quarantined(service, instance)
    for work in read_running(service.db, instance):
        if work.state == CUT_OFF:
            yield Blocker(
                instance=instance,
                held_by="no worker",
                what=f"round {work.name}",
                since=work.since,
                why="it lost its lease",
                way_out="sexton doctor",
            )
    yield from _throttled(service, instance)
    yield from _checks(service, instance)


def _quarantined(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield each reason for a quarantine. The marks are counted now: a round counts only those it found quarantined."""
    from sexton.insight.status import count_quarantined
    from sexton.marks.model import Reason

    with service.db.read() as c:
        counts = count_quarantined(service.db, c, instance)
    for reason, count in sorted(counts.items()):
        kept = Kept(KeepReason.QUARANTINED, reason)
        retry = f"once the cause is gone: sexton quarantine retry {instance} --reason {reason}"
        then = "then decide for each: sexton quarantine discard, or retry" if reason == Reason.CHANGED else retry
        yield Blocker(
            instance=instance,
            held_by=describe(kept),
            what=quantity(count.marks, "mark"),
            since=count.since,
            count=count.marks,
            why="since: when the oldest of them was marked",
            way_out=f"{way_out(kept, instance)} --reason {reason}; {then}",
        )


def _throttled(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the vaults whose stores refused requests just now: a round over them hardly moves, and shows no error."""
    from sexton.recycle.pacing.policy import vault_of

    with service.db.read() as c:
        recently = service.db.now(c) - REFUSED_MS
    vaults, endpoint_url = service.stores.registry.vaults(), service.settings.s3.endpoint_url
    refused = [f for f in service.stores.paces.figures() if (f.throttled_at or 0) > recently]
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


def _checks(service: "Deployment", instance: str) -> Iterator[Blocker]:
    from sexton.check.model import RunState

    runs = service.stores.checks.runs(instance, 2)
    with service.db.read() as c:
        now = service.db.now(c)
    for run in runs:
        if run.state is RunState.RUNNING and run.cutoff <= now - LONG_CHECK_MS:
            yield _check(run, "it has not ended", f"sexton check cancel {instance}, then: sexton check run {instance}")
    ended = next((run for run in runs if run.state is not RunState.RUNNING), None)
    if ended is not None and ended.state is RunState.PARTIAL:
        yield _check(ended, "; ".join(ended.missing_inputs), f"sexton check show {ended.id}")


def _check(run: "Run", why: str, way_out: str) -> Blocker:
    return Blocker(
        instance=run.instance,
        held_by="incomplete check",
        what=f"check {run.id}: orphans, and confirmation of losses",
        since=run.cutoff,
        why=why,
        way_out=way_out,
    )


ALL_INSTANCES = "(all)"


def control_blockers(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the controls that halt the instance, then its vaults that are not on the vault whitelist."""
    from sexton.operators.controls.policy import vault_allowed, vault_whitelist

    store = service.stores.controls
    with service.db.read() as c:
        controls, now = store.all_in(c), service.db.now(c)
    for halt, scope in _halts(controls, instance, now):
        removable = halt.since is not None or halt.by is ControlKind.WINDOW
        yield Blocker(
            instance=scope,
            held_by=halt.by,
            what="everything" if scope == ALL_INSTANCES else "the whole instance",
            since=halt.since,
            until=halt.until,
            why=halt.why,
            way_out=halt.todo if removable else "sexton lists show",
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


def _halts(controls: tuple[Control, ...], instance: str, now: int) -> Iterator[tuple[Halt, str]]:
    """Yield each control that halts the instance, even where another one already does, and what it halts."""
    from sexton.operators.controls.policy import halt

    for control in controls:
        if control.kind in (ControlKind.STOP, ControlKind.BLACKLIST):
            one_halt = halt([control], instance, now)
            if one_halt is not None:
                yield one_halt, ALL_INSTANCES if control.name == ALL else instance
    # A whitelist, and the windows, halt as a whole: one entry of them alone says nothing.
    for kind, scope in ((ControlKind.WHITELIST, instance), (ControlKind.WINDOW, ALL_INSTANCES)):
        list_halt = halt([c for c in controls if c.kind is kind], instance, now)
        if list_halt is not None:
            yield list_halt, scope
