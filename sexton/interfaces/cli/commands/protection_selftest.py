"""`sexton protection selftest`: prove on a live instance that protections block deletions."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import kept_counts, quantity
from sexton.interfaces.cli.context import log_call, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.operations import User
from sexton.kernel.errors import WrongUsage
from sexton.operations.registry import Call, operation_named

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.interfaces.selftest.protection import SelfTest
    from sexton.protection.model import Item

MAX_SECONDS = 3_600
"""How long the objects stay protected if the selftest dies."""


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
    from sexton.interfaces.selftest import protection as test
    from sexton.kernel.errors import SextonError

    if wants_json() and not yes:
        raise WrongUsage("--json cannot ask for confirmation; add --yes")
    with open_database() as service:
        name = one_instance(service, instance)
        _verify_rounds_delete(service, name)
        items = test.sample(service.stores.vaults, name, service.due_items(name, objects), objects)
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


def _verify_rounds_delete(service: "Deployment", instance: str) -> None:
    from sexton.operators.controls.model import NotEnabled

    if service.stores.registry.instance(instance).mode == "observe":
        raise NotEnabled(f"{instance} only observes, so its rounds delete nothing; run: sexton enable {instance}")
    service.stores.controls.admit(instance)


def _run(service: "Deployment", instance: str, items: "list[Item]") -> "SelfTest":
    import secrets

    from sexton.interfaces.cli.following import follow
    from sexton.interfaces.selftest import protection as test
    from sexton.operators.controls.store import whoami
    from sexton.protection.model import Protection
    from sexton.protection.sql.rows import digest
    from sexton.recycle.model import RoundReport

    job = f"selftest:{secrets.token_hex(4)}"
    protection = Protection(instance=instance, job=job, owner=whoami(), description="selftest", digest=digest(items))
    seconds = min(MAX_SECONDS, service.settings.protection_settings().max_seconds)
    call, run_round = Call(service, User(service)), operation_named("round run", "rounds")

    def one_round() -> RoundReport:
        report: RoundReport = follow("round run", service, run_round.run(call, {"instance": instance}))
        return report

    return test.run(
        service.stores.vaults,
        protection,
        items,
        protect=lambda: service.stores.registrar.register_at_once(protection, items, seconds),
        run_round=one_round,
        release=lambda: service.stores.protections.release(instance, job, "selftest"),
    )


def _show(result: "SelfTest") -> None:
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
