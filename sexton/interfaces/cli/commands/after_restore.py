"""`sexton after-restore`: do what must be done before an older copy of the database may delete again."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.insight.wording import marked, quantity
from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.operations import User, valid
from sexton.interfaces.cli.output import say
from sexton.kernel.errors import SextonError
from sexton.kernel.printable import printable
from sexton.operations.registry import Call, operation_named

if TYPE_CHECKING:
    from sexton.runtime.deployment import Deployment
    from sexton.storage.model import VaultSpec

PATIENCE_SECONDS = 5.0
INCOMPLETE, LOSS = 3, 4
"""Exit codes, as of `check run`."""
PAGE = "docs/incidents.md#the-database-was-restored-or-failed-over"
NEXT = (
    "operators repeat what they did after the copy was made: holds, lists, stops, observe modes, settings, revoked "
    "tokens and grants (the stream of sexton log --follow on another machine has it)",
    "every owner undrops again, or commits again, what it undropped or committed after the copy was made",
    "owners of topics send their maps again, and owners of binlogs the placement of their tablets",
    "every follower of the journal begins again with a snapshot",
)


class WorkersRun(SextonError):
    """Workers still poll: they may work with what they read before the restore."""


def after_restore(
    reason: Annotated[
        str, typer.Option(help="What was restored, from when; other operators will read it. Not for --check.")
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="The second part, with workers: list what is lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Prepare a restored database for work, step by step.

    First, with every worker stopped: stop all deletion, end the leases of the copy, have maps of topics sent again, and
    trust vaults that a newer copy deleted in. Then start workers, and run it with --check: it checks every instance and
    counts what is lost. Deletion begins only with `sexton start --all`. Each step may be repeated.

    Exit codes of --check: 3 a check was incomplete; 4 a loss is confirmed.

    Example: sexton after-restore --reason 'backup of 03:00'
    """
    from sexton.marks.sql.leases import end_all_leases
    from sexton.operators.controls.model import ALL, ControlKind

    if check:
        with open_database() as service:
            _check_all(service)
        return
    text = valid(operation_named("stop", "control"), {"reason": reason})["reason"]
    with open_database() as service:
        stopped = any(c.kind is ControlKind.STOP and c.name == ALL for c in service.stores.controls.all())
        if not stopped:
            _do(service, "stop", "control", reason=text, everything=True)
        typer.echo(f"1. deletion {'was already' if stopped else 'is'} stopped everywhere, until: sexton start --all")
        _require_no_worker(service, yes)
        with log_call(service, "after-restore leases", reason=text, blocks_deletion=True):
            ended = end_all_leases(service.db)
        typer.echo(f"3. {quantity(ended, 'lease')} ended, with new epochs: no run from before the restore can write")
        waiting = _do(service, "wal restored", "topics", reason=text).waiting
        typer.echo(f"4. {quantity(waiting, 'enabled topic waits', 'enabled topics wait')} for a map of the owner")
        is_open = _trust_vaults(service, text, yes)
    say("next:", *(f"  - {step}" for step in NEXT))
    say(is_open and "  - see to the vaults above, then repeat this command")
    say("  - start the workers, then: sexton after-restore --check")


def _do(service: "Deployment", name: str, module: str, **values: Any) -> Any:
    return operation_named(name, module).run(Call(service, User(service)), values)


def _require_no_worker(service: "Deployment", yes: bool) -> None:
    from sexton.runtime.temporal.client import POLL_SECONDS, connect, pollers

    async def count() -> int:
        return await pollers(await connect(service.settings), service.settings)

    try:
        workers = asyncio.run(asyncio.wait_for(count(), PATIENCE_SECONDS))
    except (TimeoutError, SextonError):
        typer.echo("2. Temporal does not answer, so it is not known whether a worker runs")
        if not yes:
            typer.confirm("Is every worker stopped?", abort=True, err=True)
        return
    if workers:
        raise WorkersRun(
            f"{quantity(workers, 'worker')} polled within the last {POLL_SECONDS} s; stop every worker, wait so long, "
            "then repeat this command"
        )
    typer.echo("2. no worker runs")


def _trust_vaults(service: "Deployment", reason: str, yes: bool) -> bool:
    """Trust each vault that is BEHIND, after showing which marks that may cost; return whether a vault has a fault."""
    from sexton.storage.port import VaultFault

    behind: list[VaultSpec] = []
    is_open = False
    for spec in service.stores.registry.vaults():
        try:
            service.stores.vaults.get(spec.instance, spec.name)
        except VaultFault as e:
            if e.reason == "BEHIND":
                behind.append(spec)
            else:
                is_open = True
                typer.echo(f"   vault {spec.name} of {spec.instance} {e.reason}: {printable(e.detail)}", err=True)
    if not behind:
        typer.echo("5. no vault knows a round that this database does not know")
        return is_open
    typer.echo(f"5. a newer copy of this database deleted in {quantity(len(behind), 'vault')}")
    for instance in sorted({spec.instance for spec in behind}):
        kinds = service.status(instance).instances[0].kinds
        marks = ", ".join(f"{marked([k])} {printable(k.kind)}" for k in kinds if k.waiting) or "none"
        typer.echo(f"   {instance}: marks that rounds will delete, unless they are undropped or held: {marks}")
    if not yes:
        question = "Are all marks that the newer copy undropped or committed undropped here, or held?"
        typer.confirm(question, abort=True, err=True)
    for spec in behind:
        _do(service, "vault trust", "vaults", instance=spec.instance, vault=spec.name, reason=reason)
        typer.echo(f"vault {spec.name} of {spec.instance} belongs to this database again")
    return is_open


def _check_all(service: "Deployment") -> None:
    """Check every instance that has a vault, and print what is lost."""
    from sexton.check.model import FindingType
    from sexton.interfaces.cli.render.rounds import show_check
    from sexton.interfaces.cli.watching import follow

    code = 0
    for instance in sorted({spec.instance for spec in service.stores.registry.vaults()}):
        report = follow("CHECKS", service, _do(service, "check run", "checks", instance=instance))
        show_check(report)
        code = max(code, LOSS if report.confirmed.get(FindingType.LOST) else 0 if report.whole else INCOMPLETE)
    typer.echo(f"next: see to what is lost or missing ({PAGE}), then: sexton start --all")
    if code:
        raise typer.Exit(code)


COMMANDS = {"after-restore": after_restore}
