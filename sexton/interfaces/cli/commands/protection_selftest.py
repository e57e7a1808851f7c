"""`sexton protection selftest`: prove on a live instance that protections block deletions.

Objects of due marks are protected, a round runs and leaves them, the protection is released, a second round deletes
them. The rounds delete only what was due, and would have been deleted anyway.
"""

import secrets
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from sexton.insight.wording import kept_counts, quantity
from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.operations import User
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.kernel.message import Message
from sexton.marks.keepers import KeptCounts
from sexton.operations.registry import Call, operation_named
from sexton.protection.model import Item, Protection

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.recycle.model import RoundReport
    from sexton.storage.vaults import ProvenVaults

MAX_SECONDS = 3_600
"""How long the objects stay protected if the selftest dies."""
OBJECTS_PER_PREFIX = 2
"""Objects sampled from one prefix; protecting one object of a mark keeps all of the mark."""


class SelfTest(Message):
    """The result of a selftest. Keys are ``VAULT/KEY``."""

    job: str
    objects: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()
    """Objects that were deleted although they were protected."""
    stayed: tuple[str, ...] = ()
    """Objects that still exist although they were released and due."""
    kept: KeptCounts = Field(default_factory=dict)
    """What blocked marks in the second round; this may explain ``stayed``."""

    @property
    def passed(self) -> bool:
        """Return whether no protected object was lost, and each released one was deleted."""
        return bool(self.objects) and not self.lost and not self.stayed


def selftest(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None,
    objects: Annotated[int, typer.Option(help="How many at most.", min=1, max=1_000)] = 20,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Prove that protections work.

    Protect some due objects, run a round, release them, run another round. These rounds delete everything that is due,
    as any round would. Exit code 0: each object existed after the first round and was deleted by the second.

    Example: sexton protection selftest shop --yes
    """
    from sexton.operators.controls.model import NotEnabled

    if wants_json() and not yes:
        raise WrongUsage("--json cannot ask for confirmation; add --yes")
    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        if service.stores.registry.instance(name).mode == "observe":
            raise NotEnabled(f"{name} only observes, so its rounds delete nothing; run: sexton enable {name}")
        service.stores.controls.admit(name)
        items = _sample(service.stores.vaults, name, service.due_items(name, objects), objects)
        if not items:
            raise SextonError(f"{name} has no due object that could be protected; see: sexton status")
        if not yes:
            sample = quantity(len(items), "object")
            question = f"Two rounds of {name} delete what is due, {sample} of it in the second. Continue?"
            typer.confirm(question, abort=True, err=True)
        with log_call(service, "protection selftest", name):
            result = _run(service, name, items)
    if wants_json():
        emit(result, passed=result.passed)
    else:
        _show(result)
    if not result.passed:
        raise typer.Exit(1)


def _sample(vaults: "ProvenVaults", instance: str, items: "Iterator[Item]", count: int) -> "list[Item]":
    """Return at most ``count`` existing objects, from exact keys and from prefixes."""
    objects: list[Item] = []
    for item in items:
        vault = vaults.get(instance, item.vault)
        if item.prefix:
            keys = [o.key for page in islice(vault.list(item.key), 1) for o in page[:OBJECTS_PER_PREFIX]]
        else:
            keys = [o.key for o in vault.stat([item.key])]
        objects += [Item(item.vault, key) for key in keys]
        if len(objects) >= count:
            break
    return objects[:count]


def _run(service: "Deployment", instance: str, items: Sequence[Item]) -> SelfTest:
    """Protect the objects, run a round, release them, run another round; return the result."""
    from sexton.interfaces.cli.following import follow
    from sexton.operators.controls.store import whoami
    from sexton.protection.sql.rows import digest

    job, stores = f"selftest:{secrets.token_hex(4)}", service.stores
    protection = Protection(instance=instance, job=job, owner=whoami(), description="selftest", digest=digest(items))
    seconds = min(MAX_SECONDS, service.settings.protection_settings().max_seconds)

    def run_round() -> "RoundReport":
        started = operation_named("round run", "rounds").run(Call(service, User(service)), {"instance": instance})
        report: RoundReport = follow("round run", service, started)
        return report

    stores.registrar.register_at_once(protection, items, seconds)
    try:
        first = run_round()
        lost = _missing(stores.vaults, instance, items)
    finally:
        stores.protections.release(instance, job, "selftest")
    second = run_round()
    missing = _missing(stores.vaults, instance, items)
    return SelfTest(
        job=job,
        objects=_names(items),
        rounds=(first.round, second.round),
        lost=_names(lost),
        stayed=_names([item for item in items if item not in missing]),
        kept=second.kept,
    )


def _missing(vaults: "ProvenVaults", instance: str, items: Sequence[Item]) -> list[Item]:
    keys_by_vault: dict[str, list[str]] = {}
    for item in items:
        keys_by_vault.setdefault(item.vault, []).append(item.key)
    existing = {
        (vault, o.key) for vault, keys in keys_by_vault.items() for o in vaults.get(instance, vault).stat(sorted(keys))
    }
    return [i for i in items if (i.vault, i.key) not in existing]


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(f"{i.vault}/{i.key}" for i in items)


def _show(result: SelfTest) -> None:
    first, second = result.rounds
    total = len(result.objects)
    typer.echo(f"round {first}, while {quantity(total, 'object')} were protected: {total - len(result.lost)} exist")
    typer.echo(f"round {second}, after their release: {total - len(result.stayed)} deleted")
    for name in result.lost:
        typer.echo(f"LOST although protected: {name}", err=True)
    for name in result.stayed:
        key = name.partition("/")[2]
        typer.echo(f"not deleted although due and released: {name}; see: sexton why {key}", err=True)
    if result.stayed:
        typer.echo(f"round {second} kept: {kept_counts(result.kept)}", err=True)
    typer.echo("protections work" if result.passed else "the selftest FAILED", err=not result.passed)
