"""`sexton protection`: keep what jobs copy elsewhere until they are done. It needs the database and the vaults."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import (
    WrongUsage,
    log_call,
    one_instance,
    open_database,
    parse_duration,
    require_reason,
)
from sexton.interfaces.cli.json_output import emit, emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import quantity, utc, utc_column

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.protection.model import Item, Protection

app = typer.Typer(help="Sync protection: keep the objects that a job copies elsewhere.", no_args_is_help=True)
COLUMNS = ("instance", "job", "owner", "state", "objects", "registered (UTC)", "until (UTC)", "description")
EXAMPLES = 5

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name; each run needs a name of its own.")]
InstanceOption = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
For = Annotated[str | None, typer.Option("--for", help="How long: 30m, 12h.", metavar="LENGTH")]


@app.command("list")
def list_(instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None) -> None:
    """Print registered protections, the oldest first.

    Example: sexton protection list shop
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        protections = service.stores.protections.list_protections(instance)
    if wants_json():
        emit_list(protections)
        return
    show_table("" if protections else "nothing is protected", COLUMNS, [_row(p) for p in protections])


@app.command("register")
def register(
    job: Job,
    owner: Annotated[str, typer.Option(help="The contact for questions about the job.")],
    objects: Annotated[list[str] | None, typer.Argument(metavar="[VAULT/KEY]...", help="Objects, or URLs.")] = None,
    prefix: Annotated[list[str] | None, typer.Option(metavar="VAULT/PREFIX", help="All keys that begin so.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one object a line; - for standard input.")] = None,
    length: For = None,
    valid_ts: Annotated[int | None, typer.Option(help="The watermark to wait for once the job is finished.")] = None,
    description: Annotated[str, typer.Option(help="The purpose of the job.")] = "",
    report_missing: Annotated[
        bool, typer.Option("--report-missing", help="Continue if objects are missing, and list them.")
    ] = False,
    instance: InstanceOption = None,
) -> None:
    """Register the objects that a job copies.

    No round claims them until the job is finished or the time is over. Objects that are missing or being deleted are
    listed. They fail the registration, unless --report-missing is given.

    Example: sexton protection register copy-7 cold/data/a.dat --owner ada --for 1h
    """
    from sexton.protection.model import Protection
    from sexton.protection.registrar import FAIL, REPORT
    from sexton.protection.sql.rows import digest

    with open_database() as service:
        name = one_instance(service, instance)
        items = sorted(set(_items(service, name, [*(objects or ()), *_lines(file)], prefix or ())))
        if not items:
            raise WrongUsage("nothing to protect: name objects as VAULT/KEY, a --prefix or a --file")
        request = Protection(
            instance=name, job=job, owner=owner, description=description, valid_ts=valid_ts, digest=digest(items)
        )
        seconds = None if length is None else parse_duration(length)
        with log_call(service, "register", name, job, blocks_deletion=True):
            service.stores.protections.open(request, seconds)
            _add_in_chunks(service, request, items)
            registered = service.stores.registrar.seal(name, job, on_missing=REPORT if report_missing else FAIL)
    if wants_json():
        emit(registered)
    else:
        _show_registered(registered)


@app.command("renew")
def renew(job: Job, length: For = None, instance: InstanceOption = None) -> None:
    """Extend a protection.

    Example: sexton protection renew copy-7 --for 1h
    """
    with open_database() as service:
        name = one_instance(service, instance)
        duration = None if length is None else parse_duration(length)
        with log_call(service, "renew", name, job, blocks_deletion=True):
            renewed = service.stores.protections.renew(name, job, duration)
    typer.echo(f"the objects of job {job} of {name} are protected until {utc(renewed.expires_at)}")


@app.command("finish")
def finish(job: Job, instance: InstanceOption = None) -> None:
    """Report that a job is done. Repeatable.

    Its objects stay protected until the owner's watermark has passed its --valid-ts; if no watermark was ever reported,
    until the next round.

    Example: sexton protection finish copy-7
    """
    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "finish", name, job):
            finished = service.stores.protections.finish(name, job)
    end = "the next round"
    if finished.valid_ts is not None:
        end = f"the watermark is above {finished.valid_ts} (the next round, if none was ever reported)"
    typer.echo(f"job {job} of {name} is finished; its objects stay protected until {end}")


@app.command("release")
def release(
    job: Job, reason: Annotated[str, typer.Option(help="Why; it is logged.")], instance: InstanceOption = None
) -> None:
    """End a protection now; the next round may delete the objects.

    Example: sexton protection release copy-7 --reason 'the job was given up'
    """
    text = require_reason(reason)
    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "release", name, job, text):
            released = service.stores.protections.release(name, job, text)
    typer.echo(f"the protection of job {job} of {name}, owner {released.owner}, has ended")


@app.command("watermark")
def watermark(
    instance: Annotated[str, typer.Argument(help="The instance.")],
    value: Annotated[int, typer.Argument(metavar="N", help="A number of the owner's own.", min=0, max=2**63 - 1)],
) -> None:
    """Report the owner's progress.

    Finished protections with a lower --valid-ts end with the next round.

    Example: sexton protection watermark shop 1700
    """
    with open_database() as service, log_call(service, "watermark", instance, str(value)):
        service.stores.protections.watermark(instance, value)
    typer.echo(f"the watermark of {instance} is {value}")


def _items(
    service: "OperatorService", instance: str, objects: Sequence[str], prefixes: Sequence[str]
) -> "Iterator[Item]":
    from sexton.protection.policy import canonical

    vaults = {v.name: v for v in service.stores.registry.vaults(instance)}
    yield from (canonical(name, vaults) for name in objects)
    yield from (canonical(name, vaults, prefix=True) for name in prefixes)


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise WrongUsage(f"--file {file} cannot be read: {e}") from e
    return [line for line in text.splitlines() if line]


def _add_in_chunks(service: "OperatorService", protection: "Protection", items: "Sequence[Item]") -> None:
    from sexton.protection.model import CHUNK_ITEMS

    remaining = iter(items)
    number = 0
    while chunk := list(islice(remaining, CHUNK_ITEMS)):
        service.stores.registrar.add(protection.instance, protection.job, number, chunk)
        number += 1


def _show_registered(p: "Protection") -> None:
    typer.echo(f"{_objects(p)} of {p.instance} protected for job {p.job} until {utc(p.expires_at)}; while it runs:")
    typer.echo(f"  sexton protection renew {p.job}; when it is done: sexton protection finish {p.job}")
    if p.sealed is not None and p.sealed.claimed + p.sealed.missing:
        examples = "; ".join(p.sealed.named[:EXAMPLES])
        typer.echo(
            f"WARNING: {p.sealed.claimed} are being deleted and {p.sealed.missing} do not exist, e.g. {examples}",
            err=True,
        )


def _row(p: "Protection") -> tuple[object, ...]:
    return p.instance, p.job, p.owner, p.state, _objects(p), utc_column(p.registered_at), _until(p), p.description


def _objects(p: "Protection") -> str:
    if p.sealed is None:
        return "being registered"
    return quantity(p.sealed.objects, "object") if p.sealed.verified else "a filter"


def _until(p: "Protection") -> str:
    if p.ends is not None:
        return f"the next round ({p.ends})"
    return utc_column(p.expires_at) if p.finished_at is None else f"watermark > {p.valid_ts}"
