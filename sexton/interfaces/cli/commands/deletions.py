"""`sexton deletions`: list every object that one round tried to delete, from the audit."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import utc_column
from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import begin_lines, emit_line, wants_json

if TYPE_CHECKING:
    from sexton.recycle.audit.model import AuditRow


def deletions(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    outcome: Annotated[
        str | None, typer.Option(help="Only objects with this outcome, such as deleted, hidden or failed.")
    ] = None,
) -> None:
    """Print every object that a round tried to delete.

    One line each: when, the outcome, the object, its mark, and the error.

    Example: sexton deletions 17 --outcome failed
    """
    import json

    from sexton.kernel.errors import WrongUsage
    from sexton.storage.model import KeyOutcome

    if outcome is not None and outcome not in tuple(KeyOutcome):
        raise WrongUsage(f"{outcome!r} is no outcome, one of: {', '.join(KeyOutcome)}")
    with open_database() as service:
        any_printed = False
        begin_lines()
        for row in service.stores.audit.rows(number):
            if outcome is None or row.outcome == outcome:
                any_printed = True
                if wants_json():
                    emit_line(json.dumps(row._asdict()))
                else:
                    typer.echo(_line(row))
    if not any_printed:
        what = (
            f"no object of round {number} is {outcome}"
            if outcome
            else f"the deletion log has no object of round {number}"
        )
        typer.echo(f"{what}; it contains the objects of finished marks", err=True)


def _line(row: "AuditRow") -> str:
    size = "" if row.bytes is None else f" {row.bytes} bytes"
    reason = f": {row.reason}" if row.reason else ""
    mark = f"({row.kind} {row.id}, batch {row.batch})"
    return f"{utc_column(row.at, 'seconds')}  {row.outcome}  {row.vault}  {row.key}{size}  {mark}{reason}"


COMMANDS = {"deletions": deletions}
