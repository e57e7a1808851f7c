"""`sexton holds`: one list of everything that keeps something from going now. SQL alone."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.commands.blockers_binlog import binlog_keepers
from sexton.interfaces.cli.context import Json, controls, opened
from sexton.interfaces.cli.output import brief, dump, many, show, stamp
from sexton.interfaces.cli.render.blocker import Blocker
from sexton.marks.keepers import KeepReason, by_plan, describe, way_out
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.operators.registry.store import Instance

EVERY = "(all)"
MOST_TOPICS = 1_000


def holds(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None, as_json: Json = False
) -> None:
    """List everything that keeps something from going now.

    Holds, stops, lists, windows, rounds that wait, and what each instance's last round met.

    Example: sexton holds shop
    """
    from sexton.operators.registry.store import Registry

    with opened() as (settings, db):
        registry = Registry(db)
        chosen = registry.instances() if instance is None else [registry.instance(instance)]
        found = [k for i in chosen for k in _keepers(settings, db, i)]
        if instance is None:
            found = [*_once(found), *_topics(db)]
    if as_json:
        dump([k.model_dump(mode="json") for k in found])
        return
    rows = [(k.instance, k.held_by, k.what, stamp(k.since), stamp(k.until), _story(k)) for k in found]
    columns = ("instance", "held by", "what", "since (UTC)", "until (UTC)", "why / way out")
    show("" if rows else "nothing keeps anything from going", columns, rows)


def _story(k: Blocker) -> str:
    why = ": ".join(t for t in (k.by and f"by {k.by}", brief(k.why)) if t)
    return "; ".join(t for t in (why, k.way_out) if t)


def _topics(db: "Database") -> Iterator[Blocker]:
    """Yield topics that are not purged now, and by what."""
    from sexton.wal.sql.store import WalStore

    for topic in WalStore(db).topics("", MOST_TOPICS, enabled=True):
        named = {"instance": "(topics)", "what": f"topic {topic.name}", "way_out": f"sexton wal explain {topic.name}"}
        if topic.quarantined:
            yield Blocker(held_by="quarantine", why=topic.quarantined, **named)
        for why, since in topic.blocked.items():
            yield Blocker(held_by=why, since=since, **named)


def _keepers(settings: "Settings", db: "Database", instance: "Instance") -> Iterator[Blocker]:
    yield from _said(settings, db, instance)
    yield from _approvals(db, instance.id)
    yield from _waits(db, instance.id)
    yield from _met(db, instance.id)
    yield from binlog_keepers(settings, db, instance.id)


def _said(settings: "Settings", db: "Database", instance: "Instance") -> Iterator[Blocker]:
    """Yield what an operator or a job said: observe, holds, protections, caps, stops, lists, windows."""
    from sexton.operators.holds.store import HoldStore
    from sexton.protection.model import ProtectionState
    from sexton.protection.sql.store import ProtectionStore
    from sexton.recycle.pacing.store import PaceStore

    name = instance.id
    if instance.mode == "observe":
        yield Blocker(
            instance=name,
            held_by="observe",
            what="the whole instance",
            since=instance.created_at,
            why="it only observes",
            way_out=f"sexton enable {name}",
        )
    for h in HoldStore(db).active(name):
        yield Blocker(
            instance=name,
            held_by=f"hold {h.id}",
            what=h.what,
            since=h.placed_at,
            until=h.expires_at,
            by=h.placed_by,
            why=h.reason,
            way_out=f"sexton hold release {h.id}",
        )
    for p in ProtectionStore(db, settings.protections()).all(name):
        over = p.state is ProtectionState.SOFT
        yield Blocker(
            instance=name,
            held_by=f"protection {p.job}",
            what="what it registered" if p.sealed is None else many(p.sealed.objects, "object"),
            since=p.registered_at,
            until=None if over else p.expires_at,
            by=p.owner,
            why=f"finished; waits for a watermark above {p.valid_ts}" if over else p.description or "sync job",
            way_out=f"sexton protection release {p.job} --instance {name}",
        )
    for cap in PaceStore(db).caps(name):
        yield Blocker(
            instance=name,
            held_by="cap",
            what=f"vault {cap.vault}: no more than {cap.keys_per_second:,} keys/s",
            since=cap.since,
            by=cap.set_by,
            why=cap.reason,
            way_out=f"sexton pace {name}/{cap.vault} --clear",
        )
    store = controls(settings, db)
    with db.read() as c:
        given, now = store.all_in(c), db.now(c)
    for halt, of in _halts(given, name, now):
        todo = halt.todo if halt.since is not None or halt.by is ControlKind.WINDOW else "sexton lists show"
        yield Blocker(
            instance=of,
            held_by=halt.by,
            what="everything" if of == EVERY else "the whole instance",
            since=halt.since,
            until=halt.until,
            why=halt.why,
            way_out=todo,
        )
    yield from _vaults(db, given, name)


def _halts(given: tuple[Control, ...], instance: str, now: int) -> Iterator[tuple[Halt, str]]:
    """Yield each control that halts the instance, also where another would be enough."""
    from sexton.operators.controls.policy import halt

    for control in given:
        if (
            control.kind in (ControlKind.STOP, ControlKind.BLACKLIST)
            and (found := halt([control], instance, now)) is not None
        ):
            yield found, EVERY if control.name == ALL else instance
    for kind, of in ((ControlKind.WHITELIST, instance), (ControlKind.WINDOW, EVERY)):
        if (found := halt([c for c in given if c.kind is kind], instance, now)) is not None:
            yield found, of


def _vaults(db: "Database", given: tuple[Control, ...], instance: str) -> Iterator[Blocker]:
    from sexton.operators.controls.policy import vault_allowed, vault_whitelist
    from sexton.operators.registry.store import Registry

    listed = vault_whitelist(given)
    for v in Registry(db).vaults(instance):
        if not vault_allowed(listed, instance, v.name):
            yield Blocker(
                instance=instance,
                held_by="vault whitelist",
                what=f"vault {v.name}",
                since=max((c.since for c in given if c.kind is ControlKind.VAULT_WHITELIST and c.since), default=None),
                why=f"only {', '.join(sorted(listed))} on the list vaults",
                way_out=f"sexton lists add vaults {instance}/{v.name}",
            )


def _approvals(db: "Database", instance: str) -> Iterator[Blocker]:
    """Yield the plans of the instance that wait for a person."""
    from sexton.recycle.planning.sql.plans import PlanStore

    with db.read() as c:
        found = PlanStore(db).approvals.waiting(c, instance)
    for plan in found:
        yield Blocker(
            instance=instance,
            held_by=describe(by_plan(plan.id)),
            what=", ".join(plan.kinds),
            since=plan.since,
            until=plan.expires_at,
            why=plan.awaits,
            count=plan.marks,
        )


def _waits(db: "Database", instance: str) -> Iterator[Blocker]:
    """Yield the instance's round that runs without a lease."""
    from sexton.recycle.rounds.sql.reports import Reports

    for r in Reports(db).rounds(instance, last=1):
        if r.ended_at is None and r.waiting:
            word, todo = {
                "paused": ("paused", f"sexton round resume {instance}"),
                "backing": ("backing off", f"sexton round retry {instance}"),
            }.get(r.waiting.split()[0], ("waiting", "it goes on by itself; see: sexton status"))
            yield Blocker(
                instance=instance,
                held_by=word,
                what=f"round {r.id}",
                since=r.waiting_since,
                why=r.waiting,
                way_out=todo,
            )


def _met(db: "Database", instance: str) -> Iterator[Blocker]:
    """Yield the holders that the instance's last report counted."""
    from sexton.recycle.rounds.sql.reports import Reports

    for r in Reports(db).find_round(instance):
        for kept, n in sorted(r.kept.items()):
            if n and kept.reason is not KeepReason.APPROVAL:
                yield Blocker(
                    instance=instance,
                    held_by=describe(kept),
                    what=many(n, "mark"),
                    count=n,
                    since=r.ended_at,
                    why=f"counted by round {r.round}",
                    way_out=way_out(kept, instance),
                )


def _once(found: list[Blocker]) -> list[Blocker]:
    """Return them with what keeps every instance named once, first."""
    every = {k.model_dump_json(): k for k in found if k.instance == EVERY}
    return [*every.values(), *(k for k in found if k.instance != EVERY)]
