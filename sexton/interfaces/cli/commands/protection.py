"""`sexton protection register`: keep what a job copies elsewhere. It needs the database and the vaults."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import utc
from sexton.interfaces.cli.commands.protection_selftest import selftest
from sexton.interfaces.cli.context import log_call, open_database, parse_duration
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.output import say
from sexton.interfaces.cli.render.tables import protected_objects
from sexton.kernel.errors import WrongUsage

if TYPE_CHECKING:
    from sexton.protection.model import Protection

EXAMPLES = 5

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name; each run needs a name of its own.")]
InstanceOption = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
For = Annotated[str | None, typer.Option("--for", help="How long: 30m, 12h.", metavar="LENGTH")]


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
    from sexton.protection.model import CHUNK_ITEMS, Protection
    from sexton.protection.policy import canonical
    from sexton.protection.registrar import FAIL, REPORT
    from sexton.protection.sql.rows import digest

    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        vaults = {v.name: v for v in service.stores.registry.vaults(name)}
        named = {canonical(given, vaults) for given in [*(objects or ()), *_lines(file)]}
        items = sorted(named | {canonical(given, vaults, prefix=True) for given in prefix or ()})
        if not items:
            raise WrongUsage("nothing to protect: name objects as VAULT/KEY, a --prefix or a --file")
        request = Protection(
            instance=name, job=job, owner=owner, description=description, valid_ts=valid_ts, digest=digest(items)
        )
        seconds = None if length is None else parse_duration(length)
        with log_call(service, "protection register", name, job, blocks_deletion=True):
            service.stores.protections.open(request, seconds)
            for number, start in enumerate(range(0, len(items), CHUNK_ITEMS)):
                service.stores.registrar.add(name, job, number, items[start : start + CHUNK_ITEMS])
            registered = service.stores.registrar.seal(name, job, on_missing=REPORT if report_missing else FAIL)
    if wants_json():
        emit(registered)
    else:
        _show_registered(registered)


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise WrongUsage(f"--file {file} cannot be read: {e}") from e
    return [line for line in text.splitlines() if line]


def _show_registered(p: "Protection") -> None:
    named = f"{p.job} --instance {p.instance}"
    until = f"until {utc(p.expires_at)}; while it runs:"
    say(f"{protected_objects(p)} of {p.instance} protected for job {p.job} {until}")
    say(f"  sexton protection renew {named}; when it is done: sexton protection finish {named}")
    if p.sealed is not None and p.sealed.claimed + p.sealed.missing:
        lost = f"{p.sealed.claimed} are being deleted and {p.sealed.missing} do not exist"
        say(f"WARNING: {lost}, e.g. {'; '.join(p.sealed.named[:EXAMPLES])}", err=True)


COMMANDS = {"protection register": register, "protection selftest": selftest}
