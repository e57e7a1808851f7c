"""`sexton check show --watch` and `sexton check findings --parquet`."""

from pathlib import Path
from typing import Annotated

import typer

from sexton.check.model import FindingType
from sexton.insight.wording import quantity
from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.operations import command
from sexton.operations.registry import operation_named

SHOW, FINDINGS = operation_named("check show", "checks"), operation_named("check findings", "checks")


def show(
    number: Annotated[int, typer.Argument(metavar="CHECK", help="The check's number.", min=1, max=2**63 - 1)],
    watch: Annotated[bool, typer.Option("--watch", help="Wait until it ends.")] = False,
) -> None:
    """Print one check, or wait for it."""
    if watch and not wants_json():
        from sexton.interfaces.cli.watching import watch_one

        with open_database() as service:
            watch_one(service, "check", service.stores.checks.report(number).run.id)
    command(SHOW)(check=number)


def findings(
    instance: Annotated[str | None, typer.Argument(help="The instance; default: the only one.")] = None,
    type_: Annotated[FindingType | None, typer.Option("--type", help="Only findings of this type.")] = None,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only confirmed findings.")] = False,
    after: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Only findings with higher numbers.")] = 0,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all of them to a Parquet file.")] = None,
) -> None:
    """Print findings, or write them to a file."""
    if parquet is None:
        command(FINDINGS)(instance=instance, type=type_, confirmed=confirmed, after=after)
        return
    from functools import partial

    from sexton.check.parquet import write

    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        read = partial(service.stores.checks.findings, name, confirmed=confirmed, of=type_)
        typer.echo(f"{quantity(write(parquet, after, read), 'finding')} of {name} in {parquet}")


show.__doc__, findings.__doc__ = SHOW.about, FINDINGS.about
COMMANDS = {"check show": show, "check findings": findings}
