"""`sexton check`: whether metadata and objects agree; what does not, and what may be done about it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.check.model import CheckReport, CheckRequest, Finding, Run, Type
from sexton.interfaces.cli.context import Json, WrongUsage, ask_temporal, one_instance, opened, recorded, said
from sexton.interfaces.cli.output import dump, many, show, size, stamp, when

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.check.sql.repair import Repairs
    from sexton.database.engine import Database

app = typer.Typer(help="Whether metadata and objects agree.", no_args_is_help=True)
Instance = Annotated[str, typer.Argument(help="The instance.")]
SHOWN = 1_000
LACKING = 3
"""Exit code of a check that could not see everything."""
MEANS = {
    Type.LOST: "a record names it, and it is not there",
    Type.SIZE_MISMATCH: "its record says another size",
    Type.ORPHAN: "nothing names it",
    Type.UNKNOWN_KIND: "nothing names it, and its key is none of the owner's: never touched",
    Type.UPLOAD: "uploads that were never finished",
    Type.RECORD: "records that do not agree with each other",
}


@app.command("run")
def run(
    instance: Annotated[str | None, typer.Argument(help="The instance; the only one, where there is one.")] = None,
    as_json: Json = False,
) -> None:
    """Check an instance now: list its vaults, read its records, print what does not agree. It deletes nothing.

    Ctrl-C stops waiting, not the check. Exit code 3: it could not see everything, and so concludes nothing.

    Example: sexton check run shop
    """
    from sexton.operators.registry.store import Registry
    from sexton.runtime.temporal.checks import CHECKS

    with opened() as (settings, db):
        name = one_instance(db, instance)
        if not Registry(db).vaults(name):
            raise WrongUsage(f"instance {name} has no vault to check; add one with: sexton vault add")
        with recorded(db, "check run", name):
            report = CHECKS.run(
                settings, CheckRequest(instance=name, by="cli"), lambda told: typer.echo(told, err=True)
            )
    _end(report, as_json)


@app.command("cancel")
def cancel(instance: Instance) -> None:
    """End the running check; it concludes nothing.

    Example: sexton check cancel shop
    """
    from sexton.operators.registry.store import Registry
    from sexton.runtime.temporal.checks import CHECKS

    with opened() as (settings, db):
        Registry(db).instance(instance)
        with recorded(db, "check cancel", instance, keeps=True):
            ask_temporal(settings, lambda client: CHECKS.cancel(client, settings, instance))
    typer.echo(f"the check of {instance} ends; see: sexton check list {instance}")


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Print the newest checks.

    Example: sexton check list shop
    """
    from sexton.check.sql.store import CheckStore
    from sexton.operators.registry.store import Registry

    with opened() as (_, db):
        if instance is not None:
            Registry(db).instance(instance)
        found = CheckStore(db).runs(instance, last)
    if as_json:
        dump([r.model_dump(mode="json") for r in found])
        return
    rows = [
        (r.id, r.instance, r.state, stamp(r.cutoff), _took(r), _listed(r), _live(r), "; ".join(r.lacks)) for r in found
    ]
    columns = ("check", "instance", "state", "began (UTC)", "took", "objects", "live files", "what it lacks")
    show("" if rows else "no check yet; begin with: sexton check run INSTANCE", columns, rows)


@app.command("show")
def show_(
    number: Annotated[int, typer.Argument(metavar="CHECK", help="The check's number.", min=1, max=2**63 - 1)],
    as_json: Json = False,
) -> None:
    """Print one check: what it saw, what it lacks, and what stands open now.

    Example: sexton check show 3
    """
    from sexton.check.sql.store import CheckStore

    with opened() as (_, db):
        report = CheckStore(db).report(number)
    if as_json:
        dump(report.model_dump(mode="json"))
    else:
        _show(report)


@app.command("findings")
def findings(
    instance: Annotated[str | None, typer.Argument(help="The instance; the only one, where there is one.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help=f"Only {', '.join(Type)}.")] = None,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only what is confirmed.")] = False,
    after: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Only those with higher numbers.")] = 0,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all of them to a Parquet file.")] = None,
    as_json: Json = False,
) -> None:
    """Print what does not agree, a thousand at a time; or write all of it to a file.

    Something LOST is confirmed by a second look at its object and its record, an ORPHAN by two whole checks that lie a
    day apart.

    Example: sexton check findings shop --type LOST
    """
    from sexton.check.sql.store import CheckStore

    if type_ is not None and type_ not in list(Type):
        raise WrongUsage(f"{type_!r} is no type of finding; one of: {', '.join(Type)}")
    with opened() as (_, db):
        name = one_instance(db, instance)
        of = None if type_ is None else Type(type_)
        read = partial(CheckStore(db).findings, name, confirmed=confirmed, of=of)
        if parquet is not None:
            from sexton.check.parquet import write

            typer.echo(f"{many(write(parquet, after, read), 'finding')} of {name} in {parquet}")
            return
        found = read(after, SHOWN + 1)
    if as_json:
        dump([f.model_dump(mode="json") for f in found[:SHOWN]])
        return
    rows = [(f.id, f.type, _sure(f), _where(f), _sizes(f), stamp(f.first_seen), _by(f)) for f in found[:SHOWN]]
    columns = ("finding", "type", "confirmed", "object or record", "size", "since (UTC)", "by")
    show("" if rows else "nothing is open", columns, rows)
    if len(found) > SHOWN:
        typer.echo(f"these are the first {SHOWN}; the next: --after {found[SHOWN - 1].id}")


@app.command("accept")
def accept(
    finding: Annotated[int, typer.Argument(metavar="FINDING", help="Its number.", min=1, max=2**63 - 1)],
    reason: Annotated[str, typer.Option(help="Why it is as it should be; others will read it.")],
) -> None:
    """Say of a finding that it is as it should be: it is shown no more, and no repair takes it.

    Example: sexton check accept 17 --reason 'put there by hand'
    """
    from sexton.check.sql.store import CheckStore
    from sexton.operators.controls.store import whoami

    why = said(reason)
    with opened() as (_, db), recorded(db, "check accept", "", str(finding), why, keeps=True):
        accepted = CheckStore(db).accept(finding, whoami(), why)
    typer.echo(f"finding {finding} ({accepted.type} {_where(accepted)}) is accepted")


@app.command("rebase")
def rebase(
    instance: Instance,
    reason: Annotated[str, typer.Option(help="Why so much is gone; others will read it.")],
) -> None:
    """Say that much less is there than before, and rightly: the next check is compared with none before it.

    Example: sexton check rebase shop --reason 'the archive was dropped'
    """
    from sexton.check.sql.store import CheckStore
    from sexton.operators.registry.store import Registry

    why = said(reason)
    with opened() as (_, db):
        Registry(db).instance(instance)
        with recorded(db, "check rebase", instance, "", why):
            CheckStore(db).rebase(instance)
    typer.echo(f"the next check of {instance} is compared with none before it: sexton check run {instance}")


@app.command("repair")
def repair(
    instance: Instance,
    orphans: Annotated[bool, typer.Option("--orphans", help="Mark confirmed orphans for deletion.")] = False,
    lost: Annotated[bool, typer.Option("--lost", help="Show again what was lost, from object versions.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Act on confirmed findings of the last check, which must have seen everything. Nothing is deleted here.

    Orphans become marks of kind orphan: they wait for their retention, a round's plan names them, and until it claims
    them they can be taken back. More than one object in a hundred is refused.

    Example: sexton check repair shop --orphans
    """
    if orphans == lost:
        raise WrongUsage("say what to repair: --orphans or --lost, one of them")
    with opened() as (settings, db):
        repairs = _repairs(settings, db)
        one = repairs.orphans if orphans else repairs.lost
        counted = one(instance, dry_run=True)
        if not dry_run and counted.found:
            if not yes:
                typer.confirm(f"{_asked(counted.found, orphans=orphans)}?", abort=True, err=True)
            with recorded(db, f"check repair {'orphans' if orphans else 'lost'}", instance):
                counted = one(instance)
    if as_json:
        dump(counted.model_dump() | {"dry_run": dry_run})
        return
    if not counted.found:
        typer.echo(f"nothing confirmed to repair; see: sexton check findings {instance}")
    elif dry_run:
        typer.echo(f"would {_asked(counted.found, orphans=orphans)}" + (f"; {counted.shown} can be" if lost else ""))
    elif orphans:
        typer.echo(f"marked {many(counted.marked, 'orphan')}, kept {counted.kept}; see: sexton plan {instance}")
    else:
        typer.echo(f"shown again: {many(counted.shown, 'object')}; not to be had: {counted.kept}")


def _repairs(settings: "Settings", db: "Database") -> "Repairs":
    from sexton.check.sql.repair import Repairs
    from sexton.check.sql.store import CheckStore
    from sexton.interfaces.operator_service import OperatorService

    return Repairs(db, CheckStore(db), OperatorService(settings, db).vaults)


def _asked(found: int, *, orphans: bool) -> str:
    return f"mark {many(found, 'orphan')} for deletion" if orphans else f"show {many(found, 'lost object')} again"


def _end(report: CheckReport, as_json: bool) -> None:
    """Print a report; exit code 3 where it lacks something."""
    if as_json:
        dump(report.model_dump(mode="json"))
    else:
        _show(report)
    if not report.whole:
        raise typer.Exit(LACKING)


def _show(report: CheckReport) -> None:
    run_, evidence = report.run, report.run.evidence
    typer.echo(f"check {run_.id} of {run_.instance}: {run_.state}, begun {when(run_.cutoff)}, {_took(run_)}")
    for its in evidence.listings if evidence else ():
        young = f", {its.young:,} of them too young to be judged as orphans" if its.young else ""
        typer.echo(f"  vault {its.vault}: {its.objects + its.young:,} objects{young}")
    if evidence and evidence.live is not None:
        prefixes = f", {evidence.prefixes:,} live prefixes" if evidence.prefixes else ""
        typer.echo(f"  records: {evidence.live:,} live files{prefixes}")
    for note in evidence.notes if evidence else ():
        typer.echo(f"  note: {note}")
    for lack in run_.lacks:
        typer.echo(f"  lacks: {lack}")
    if run_.lacks:
        typer.echo("  so it confirms nothing, and calls nothing gone")
    rows = [(t, n, report.confirmed.get(t, 0), MEANS[Type(t)]) for t, n in report.found.items()]
    none = "nothing open: metadata and objects agree" if report.whole else ""
    show("" if rows else none, ("open", "findings", "confirmed", "what it means"), rows)
    if rows:
        typer.echo(f"see: sexton check findings {run_.instance}")


def _took(r: Run) -> str:
    return "runs" if r.ended_at is None else f"{(r.ended_at - r.cutoff) / 1000:,.0f} s"


def _listed(r: Run) -> str:
    return f"{sum(i.objects + i.young for i in r.evidence.listings):,}" if r.evidence else ""


def _live(r: Run) -> str:
    return f"{r.evidence.live:,}" if r.evidence and r.evidence.live is not None else ""


def _sure(f: Finding) -> str:
    return "yes" if f.confirmed_at is not None else "no"


def _by(f: Finding) -> str:
    return f.record or f.detail


def _where(f: Finding) -> str:
    return f"{f.vault}/{f.key}" if f.vault else f.key


def _sizes(f: Finding) -> str:
    if f.type is Type.SIZE_MISMATCH and f.size is not None and f.expected is not None:
        return f"{f.size:,} B, not {f.expected:,}"
    known = f.size if f.size is not None else f.expected
    return "" if known is None else size(known)
