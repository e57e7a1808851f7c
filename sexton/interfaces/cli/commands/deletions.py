"""`sexton audit`: what one round tried, object by object, from the audit."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import opened
from sexton.interfaces.cli.output import stamp


def audit(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    outcome: Annotated[
        str | None, typer.Option(help="Only objects that ended so: deleted, hidden, failed, ...")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line for programs.")] = False,
) -> None:
    """Print every object that a round tried: when, what became of it, where it was, for which mark, and why not.

    Example: sexton audit 17 --outcome failed
    """
    import json

    from sexton.interfaces.cli.context import WrongUsage
    from sexton.interfaces.operator_service import OperatorService
    from sexton.storage.model import KeyOutcome

    if outcome is not None and outcome not in tuple(KeyOutcome):
        raise WrongUsage(f"{outcome!r} is no outcome, one of: {', '.join(KeyOutcome)}")
    with opened() as (settings, db):
        told = 0
        for row in OperatorService(settings, db).audit.rows(number):
            if outcome is not None and row.outcome != outcome:
                continue
            told += 1
            if as_json:
                typer.echo(json.dumps(row._asdict()))
                continue
            size = "" if row.bytes is None else f" {row.bytes} bytes"
            why = f": {row.reason}" if row.reason else ""
            at = stamp(row.at, "seconds")
            typer.echo(
                f"{at}  {row.outcome}  {row.vault}  {row.key}{size}  ({row.kind} {row.id}, batch {row.batch}){why}"
            )
    if not told:
        what = f"no object of round {number} is {outcome}" if outcome else f"the audit has no object of round {number}"
        typer.echo(f"{what}; it has those whose marks were finished with", err=True)
