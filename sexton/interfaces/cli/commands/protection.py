"""`sexton protection`: what jobs copy elsewhere stays until they are done. SQL and the vaults, no Temporal."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, one_instance, opened, recorded, said, seconds
from sexton.interfaces.cli.output import counts, dump, many, show, stamp, when

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.interfaces.selftest.protection import SelfTest
    from sexton.protection.model import Item, Protection

app = typer.Typer(help="Sync protection: what a job copies elsewhere stays.", no_args_is_help=True)
COLUMNS = ("instance", "job", "owner", "state", "objects", "registered (UTC)", "until (UTC)", "description")

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name, one of its own for each run.")]
Of = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
For = Annotated[str | None, typer.Option("--for", help="How long: 30m, 12h.", metavar="LENGTH")]


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None, as_json: Json = False
) -> None:
    """Print what is registered, the oldest first.

    Example: sexton protection list shop
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db):
        desk = OperatorService(settings, db)
        if instance is not None:
            desk.registry.instance(instance)
        found = desk.protections.all(instance)
    if as_json:
        dump([p.model_dump(mode="json") for p in found])
        return
    rows = [
        (p.instance, p.job, p.owner, p.state, _objects(p), stamp(p.registered_at), _until(p), p.description)
        for p in found
    ]
    show("" if rows else "nothing is protected", COLUMNS, rows)


@app.command("register")
def register(
    job: Job,
    owner: Annotated[str, typer.Option(help="Who is asked about it.")],
    objects: Annotated[list[str] | None, typer.Argument(metavar="[VAULT/KEY]...", help="Objects, or URLs.")] = None,
    prefix: Annotated[list[str] | None, typer.Option(metavar="VAULT/PREFIX", help="All that begins with it.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one object a line; - for standard input.")] = None,
    length: For = None,
    valid_ts: Annotated[int | None, typer.Option(help="The watermark to wait for once it is finished.")] = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    report_missing: Annotated[bool, typer.Option("--report-missing", help="Name what is missing; go on.")] = False,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Register what a job copies: no round claims it until the job is finished, or its time is over.

    What is being deleted or is not there is named, and ends the registration unless --report-missing.

    Example: sexton protection register copy-7 cold/data/a.dat --owner ada --for 1h
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.protection.model import CHUNK_ITEMS, Protection
    from sexton.protection.registrar import FAIL, REPORT
    from sexton.protection.sql.rows import digest

    with opened() as (settings, db):
        name = one_instance(db, instance)
        items = sorted(set(_items(db, name, [*(objects or ()), *_lines(file)], prefix or ())))
        if not items:
            raise WrongUsage("name objects as VAULT/KEY, a --prefix or a --file: it would protect nothing")
        wanted = Protection(
            instance=name, job=job, owner=owner, description=description, valid_ts=valid_ts, digest=digest(items)
        )
        desk, chunks = OperatorService(settings, db), iter(items)
        desk.protections.open(wanted, None if length is None else seconds(length))
        number = 0
        while chunk := list(islice(chunks, CHUNK_ITEMS)):
            desk.registrar.add(name, job, number, chunk)
            number += 1
        made = desk.registrar.seal(name, job, on_missing=REPORT if report_missing else FAIL)
    if as_json:
        dump(made.model_dump(mode="json"))
        return
    typer.echo(f"{_objects(made)} of {name} stay for job {job} until {when(made.expires_at)}; while it runs:")
    typer.echo(f"  sexton protection renew {job}; when it is done: sexton protection finish {job}")
    if made.sealed is not None and made.sealed.claimed + made.sealed.missing:
        typer.echo(
            f"WARNING: {made.sealed.claimed} are being deleted and {made.sealed.missing} are not there, e.g. "
            f"{'; '.join(made.sealed.named[:5])}",
            err=True,
        )


@app.command("renew")
def renew(job: Job, length: For = None, instance: Of = None) -> None:
    """Move a protection's end forward.

    Example: sexton protection renew copy-7 --for 1h
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db):
        name = one_instance(db, instance)
        made = OperatorService(settings, db).protections.renew(name, job, None if length is None else seconds(length))
    typer.echo(f"job {job} of {name} keeps what it registered until {when(made.expires_at)}")


@app.command("finish")
def finish(job: Job, instance: Of = None) -> None:
    """Say that a job is done. Repeatable.

    It still keeps what it registered until the owner's watermark has passed its --valid-ts; where no watermark was
    ever reported, until the next round.

    Example: sexton protection finish copy-7
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db):
        name = one_instance(db, instance)
        with recorded(db, "finish", name, job):
            made = OperatorService(settings, db).protections.finish(name, job)
    waits = "the next round"
    if made.valid_ts is not None:
        waits = f"the watermark is above {made.valid_ts} (the next round, if none was ever reported)"
    typer.echo(f"job {job} of {name} is finished; what it registered stays until {waits}")


@app.command("release")
def release(job: Job, reason: Annotated[str, typer.Option(help="Why; it is logged.")], instance: Of = None) -> None:
    """End a protection at once: what it kept goes with the next round.

    Example: sexton protection release copy-7 --reason 'the job was given up'
    """
    from sexton.interfaces.operator_service import OperatorService

    why = said(reason)
    with opened() as (settings, db):
        name = one_instance(db, instance)
        with recorded(db, "release", name, job, why):
            ended = OperatorService(settings, db).protections.release(name, job, why)
    typer.echo(f"the protection of job {job} of {name}, owner {ended.owner}, has ended")


@app.command("watermark")
def watermark(
    instance: Annotated[str, typer.Argument(help="The instance.")],
    value: Annotated[int, typer.Argument(metavar="N", help="A number of the owner's own.", min=0, max=2**63 - 1)],
) -> None:
    """Say how far the owner has come; finished protections below it end with the next round.

    Example: sexton protection watermark shop 1700
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db), recorded(db, "watermark", instance, str(value)):
        OperatorService(settings, db).protections.watermark(instance, value)
    typer.echo(f"the watermark of {instance} is {value}")


def _items(db: "Database", instance: str, objects: Sequence[str], prefixes: Sequence[str]) -> "Iterator[Item]":
    from sexton.operators.registry.store import Registry
    from sexton.protection.policy import canonical

    vaults = {v.name: v for v in Registry(db).vaults(instance)}
    yield from (canonical(name, vaults) for name in objects)
    yield from (canonical(name, vaults, prefix=True) for name in prefixes)


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise WrongUsage(f"--file {file} cannot be read: {e}") from e
    return [line for line in text.splitlines() if line]


def _objects(p: "Protection") -> str:
    return (
        "being registered"
        if p.sealed is None
        else many(p.sealed.objects, "object")
        if p.sealed.verified
        else "a filter"
    )


def _until(p: "Protection") -> str:
    if p.finished_at is None:
        return stamp(p.expires_at)
    return "the next round" if p.valid_ts is None else f"watermark > {p.valid_ts}"


@app.command("selftest")
def selftest(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None,
    objects: Annotated[int, typer.Option(help="How many at most.", min=1, max=1_000)] = 20,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Prove that protections keep: protect some objects that are due, run a round, release them, run another.

    Everything that is due goes in these rounds, as it would in any. Exit code 0: each object was there after the first
    round and gone after the second.

    Example: sexton protection selftest shop --yes
    """
    import secrets

    from sexton.interfaces.cli.running import run_round
    from sexton.interfaces.operator_service import OperatorService
    from sexton.interfaces.selftest import protection as test
    from sexton.kernel.errors import SextonError
    from sexton.operators.controls.port import NotEnabled
    from sexton.operators.controls.store import whoami
    from sexton.protection.model import Protection
    from sexton.protection.sql.rows import digest
    from sexton.recycle.model import RecycleRequest

    if as_json and not yes:
        raise WrongUsage("with --json nobody sees what is asked; add --yes")
    with opened() as (settings, db):
        desk, name = OperatorService(settings, db), one_instance(db, instance)
        if desk.registry.instance(name).mode == "observe":
            raise NotEnabled(f"{name} only observes, so nothing would go; run: sexton enable {name}")
        desk.controls.admit(name)
        items = test.sample(desk.vaults, name, desk.due_items(name, objects), objects)
        if not items:
            raise SextonError(f"nothing of {name} is due that could be protected; see: sexton status")
        if not yes:
            asked = f"two rounds of {name} delete what is due, {many(len(items), 'object')} of it in the second; go on?"
            typer.confirm(asked, abort=True, err=True)
        job = f"selftest:{secrets.token_hex(4)}"
        wanted = Protection(instance=name, job=job, owner=whoami(), description="selftest", digest=digest(items))
        request = RecycleRequest(instance=name, requested_by=whoami())
        seen = test.run(
            desk.registrar,
            desk.vaults,
            wanted,
            items,
            min(3_600, desk.settings.protections().max_seconds),
            lambda: run_round(settings, db, request, watch=not as_json),
            lambda: desk.protections.release(name, job, "selftest"),
        )
    if as_json:
        dump(seen.model_dump(mode="json") | {"passed": seen.passed})
    else:
        _tell(seen)
    if not seen.passed:
        raise typer.Exit(1)


def _tell(seen: "SelfTest") -> None:
    first, second = seen.rounds
    count = many(len(seen.objects), "object")
    typer.echo(f"round {first}, while {count} were protected: {len(seen.objects) - len(seen.lost)} still there")
    typer.echo(f"round {second}, after their release: {len(seen.objects) - len(seen.stayed)} gone")
    for name in seen.lost:
        typer.echo(f"LOST although protected: {name}", err=True)
    for name in seen.stayed:
        typer.echo(f"still there although due and released: {name}; see: sexton why {name.partition('/')[2]}", err=True)
    if seen.stayed:
        typer.echo(f"round {second} kept: {counts(seen.kept)}", err=True)
    typer.echo("protections keep what they cover" if seen.passed else "the selftest FAILED", err=not seen.passed)
