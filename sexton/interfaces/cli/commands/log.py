"""`sexton calls`: who did what to this deployment, by the command line or the API."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, opened
from sexton.interfaces.cli.output import dump, show, stamp


def calls(
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
    last: Annotated[int, typer.Option(help="How many.", min=1, max=10_000)] = 50,
    as_json: Json = False,
) -> None:
    """Print what was done, or refused, that deletes, keeps or configures something; the newest first.

    It is written down before it is done: `asked` is one whose end nobody saw, `LEFT` one that was not waited
    for (Ctrl-C). Kept for 400 days.

    Example: sexton calls --instance shop
    """
    from sexton.operators.call_log.store import CallStore

    with opened() as (_, db):
        found = CallStore(db).last(last, instance)
    if as_json:
        dump([c.model_dump(mode="json") for c in found])
        return
    rows = [(stamp(c.at), c.who, c.source, c.action, c.instance, c.subject, c.outcome, c.reason) for c in found]
    columns = ("when (UTC)", "who", "from", "did", "instance", "what", "outcome", "why")
    show("" if rows else "nobody did anything yet", columns, rows)
