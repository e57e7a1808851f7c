"""`sexton log`: list who did what to this deployment, by the command line or the API."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, open_database
from sexton.interfaces.cli.output import print_json, show_table, utc_column


def log(
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
    last: Annotated[int, typer.Option(help="How many.", min=1, max=10_000)] = 50,
    as_json: Json = False,
) -> None:
    """Print who did what, the newest first.

    Actions that delete, block or configure something, including those that were refused. An action is recorded before
    it is done. Outcome `asked`: its end was not recorded; `LEFT`: the caller did not wait for its end (Ctrl-C). Records
    are kept for 400 days.

    Example: sexton log --instance shop
    """
    with open_database() as service:
        calls = service.stores.calls.last(last, instance)
    if as_json:
        print_json([c.model_dump(mode="json") for c in calls])
        return
    rows = [(utc_column(c.at), c.who, c.source, c.action, c.instance, c.subject, c.outcome, c.reason) for c in calls]
    columns = ("when (UTC)", "who", "from", "did", "instance", "what", "outcome", "why")
    show_table("" if rows else "no action is recorded yet", columns, rows)
