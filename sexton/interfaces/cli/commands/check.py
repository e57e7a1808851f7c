"""`sexton check`: compare metadata with objects, list what does not agree, and repair it."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.check.model import CheckRequest, FindingType
from sexton.interfaces.cli.context import (
    OptionalInstance,
    WrongUsage,
    log_call,
    named_or_only,
    one_instance,
    open_database,
    require_reason,
)
from sexton.interfaces.cli.groups import EMERGENCIES
from sexton.interfaces.cli.json_output import emit, emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.checks import finding_place, finding_row, run_row, show_report
from sexton.interfaces.wording import quantity

if TYPE_CHECKING:
    from sexton.check.model import RepairResult

app = typer.Typer(help="Compare metadata with objects.", no_args_is_help=True)
Instance = Annotated[str, typer.Argument(help="The instance.")]
PAGE_ROWS = 1_000
INCOMPLETE = 3
"""Exit code of a check that could not see everything."""
LOSS = 4
"""Exit code of a check after which a loss is confirmed and open."""


@app.command("run")
def run(
    instance: OptionalInstance = None,
) -> None:
    """Check an instance now.

    List its vaults, read its records, print what does not agree. A check deletes nothing.

    Ctrl-C stops waiting, not the check. Exit code 3: the check could not see everything, so it confirms nothing. Exit
    code 4: the loss of an object is confirmed.

    Example: sexton check run shop
    """
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal.checks import CHECKS

    with open_database() as service:
        name = one_instance(service, instance)
        if not service.stores.registry.vaults(name):
            raise WrongUsage(f"instance {name} has no vault to check; add one with: sexton vault add")
        with log_call(service, "check run", name):
            request = CheckRequest(instance=name, requested_by=whoami())
            report = CHECKS.run(service.settings, request, lambda message: typer.echo(message, err=True))
    if wants_json():
        emit(report)
    else:
        show_report(report)
    if not report.whole:
        raise typer.Exit(INCOMPLETE)
    if report.confirmed.get(FindingType.LOST):
        raise typer.Exit(LOSS)


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 20,
) -> None:
    """Print the newest checks.

    Example: sexton check list shop
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        runs = service.stores.checks.runs(instance, last + 1)
    if wants_json():
        emit_list(runs[:last], more=len(runs) > last)
        return
    columns = ("check", "instance", "state", "began (UTC)", "took", "objects", "live files", "missing")
    none = "no check yet; begin with: sexton check run INSTANCE"
    show_table("" if runs else none, columns, [run_row(r) for r in runs[:last]])


@app.command("show")
def show_(
    number: Annotated[int, typer.Argument(metavar="CHECK", help="The check's number.", min=1, max=2**63 - 1)],
    watch: Annotated[bool, typer.Option("--watch", help="Wait until it ends.")] = False,
) -> None:
    """Print one check, and the open findings.

    What the check saw, what it could not see, and the findings that are open now.

    Example: sexton check show 3
    """
    from sexton.interfaces.cli.watching import watch_one

    with open_database() as service:
        if watch and not wants_json():
            watch_one(service, "check", service.stores.checks.report(number).run.id)
        report = service.stores.checks.report(number)
    if wants_json():
        emit(report)
    else:
        show_report(report)


@app.command("findings")
def findings(
    instance: OptionalInstance = None,
    type_: Annotated[str | None, typer.Option("--type", help=f"Only {', '.join(FindingType)}.")] = None,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only confirmed findings.")] = False,
    after: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Only findings with higher numbers.")] = 0,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all of them to a Parquet file.")] = None,
) -> None:
    """Print open findings, or write them to a file.

    A thousand are printed at a time; a file contains all.

    A LOST finding is confirmed by looking up its object and its record a second time, an ORPHAN by two complete checks
    at least a day apart.

    Example: sexton check findings shop --type LOST
    """
    if type_ is not None and type_ not in list(FindingType):
        raise WrongUsage(f"{type_!r} is no type of finding; one of: {', '.join(FindingType)}")
    with open_database() as service:
        name = one_instance(service, instance)
        only_type = None if type_ is None else FindingType(type_)
        read = partial(service.stores.checks.findings, name, confirmed=confirmed, of=only_type)
        if parquet is not None:
            from sexton.check.parquet import write

            typer.echo(f"{quantity(write(parquet, after, read), 'finding')} of {name} in {parquet}")
            return
        page = read(after, PAGE_ROWS + 1)
    shown = page[:PAGE_ROWS]
    if wants_json():
        emit_list(shown, more=len(page) > PAGE_ROWS)
        return
    columns = ("finding", "type", "confirmed", "object or record", "size", "since (UTC)", "by")
    show_table("" if shown else "nothing is open", columns, [finding_row(f) for f in shown])
    if len(page) > PAGE_ROWS:
        typer.echo(f"these are the first {PAGE_ROWS}; the next: --after {shown[-1].id}")


@app.command("accept")
def accept(
    finding: Annotated[int, typer.Argument(metavar="FINDING", help="Its number.", min=1, max=2**63 - 1)],
    reason: Annotated[str, typer.Option(help="Why it is correct; other operators will read it.")],
) -> None:
    """Accept a finding as correct.

    It is no longer listed or repaired.

    Example: sexton check accept 17 --reason 'put there by hand'
    """
    from sexton.operators.controls.store import whoami

    text = require_reason(reason)
    with open_database() as service, log_call(service, "check accept", "", str(finding), text, blocks_deletion=True):
        accepted = service.stores.checks.accept(finding, whoami(), text)
    typer.echo(f"finding {finding} ({accepted.type} {finding_place(accepted)}) is accepted")


@app.command("rebase", rich_help_panel=EMERGENCIES)
def rebase(
    reason: Annotated[str, typer.Option(help="Why so much is missing; other operators will read it.")],
    given: OptionalInstance = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Accept that far fewer objects exist.

    The next check is not compared with earlier ones. It is refused unless the last check saw everything that is there.

    Example: sexton check rebase shop --reason 'the archive was dropped'
    """
    text = require_reason(reason)
    with open_database() as service:
        instance, checks = one_instance(service, given), service.stores.checks
        with log_call(service, "check rebase", instance, "", text):
            if not yes:
                for gap in checks.shrunken(instance).missing_inputs:
                    typer.echo(gap, err=True)
                typer.confirm("Is this correct?", abort=True, err=True)
            checks.rebase(instance)
    typer.echo(f"the next check of {instance} is not compared with earlier ones: sexton check run {instance}")


@app.command("repair")
def repair(
    given: OptionalInstance = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="Mark confirmed orphans for deletion.")] = False,
    lost: Annotated[bool, typer.Option("--lost", help="Undelete lost objects from object versions.")] = False,
    key_prefix: Annotated[str, typer.Option(metavar="PREFIX", help="Only orphans whose key begins with it.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many orphans, the oldest findings first.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Repair confirmed findings of the last check.

    The check must be complete. This command deletes nothing. Orphans become marks of kind orphan: they wait for their
    retention, appear in a round's plan, and can be undropped until a round claims them. If more than one object in a
    hundred of a vault waits as an orphan, that plan waits for an operator's approval.

    Example: sexton check repair shop --orphans
    """
    if orphans == lost:
        raise WrongUsage("name what to repair: --orphans or --lost, exactly one of the two")
    if lost and (key_prefix or limit):
        raise WrongUsage("--key-prefix and --limit go with --orphans")
    with open_database() as service:
        repairs, instance = service.stores.repairs, named_or_only(service, given)
        some = partial(repairs.orphans, key_prefix=key_prefix, limit=limit)
        run_repair = some if orphans else repairs.lost
        action = f"check repair {'orphans' if orphans else 'lost'}"
        with nullcontext() if dry_run else log_call(service, action, instance):
            result = run_repair(instance, dry_run=True)
            awaits = ""
            if orphans and result.found:
                awaits = repairs.awaits(instance, key_prefix=key_prefix, limit=limit)
            if awaits and not wants_json():
                typer.echo(f"no round will delete orphans before an operator has applied a plan with them: {awaits}")
            if not dry_run and result.found:
                if not yes:
                    question = _action(result.found, orphans=orphans)
                    typer.confirm(f"{question[0].upper()}{question[1:]}?", abort=True, err=True)
                result = run_repair(instance)
    if wants_json():
        emit(result, dry_run=dry_run, awaits=awaits)
    else:
        typer.echo(_repair_summary(instance, result, orphans=orphans, dry_run=dry_run))


def _repair_summary(instance: str, result: "RepairResult", *, orphans: bool, dry_run: bool) -> str:
    if not result.found:
        return f"nothing confirmed to repair; see: sexton check findings {instance}"
    if dry_run:
        action = f"would {_action(result.found, orphans=orphans)}"
        return action if orphans else f"{action}; {result.shown} can be undeleted"
    if orphans:
        return f"marked {quantity(result.marked, 'orphan')}, kept {result.kept}; see: sexton plan {instance}"
    return f"undeleted: {quantity(result.shown, 'object')}; no version available: {result.kept}"


def _action(count: int, *, orphans: bool) -> str:
    return f"mark {quantity(count, 'orphan')} for deletion" if orphans else f"undelete {quantity(count, 'lost object')}"
