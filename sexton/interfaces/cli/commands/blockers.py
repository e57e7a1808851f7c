"""`sexton blockers`: list everything that blocks deletions now. Without Temporal it says what it could not list."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import first_line, utc_column

if TYPE_CHECKING:
    from sexton.insight.views import Blocker


def blockers(instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None) -> None:
    """List everything that blocks deletions now.

    Holds, protections, stops, lists, windows, quarantined marks, waiting rounds and runs, regions, replays, consumers,
    followers and replicas, incomplete checks, a missing schedule or worker, and what blocked marks in each instance's
    last round. All but the schedule, workers and waiting runs comes from the database.

    Example: sexton blockers shop
    """
    from sexton.interfaces.blockers.listing import list_blockers
    from sexton.interfaces.blockers.temporal import NOT_ASKED

    with open_database() as service:
        listed = list_blockers(service, instance)
    if listed.temporal_away:
        typer.echo(NOT_ASKED, err=True)
    if wants_json():
        emit_list(listed.rows)
        return
    columns = ("instance", "blocked by", "what", "since (UTC)", "until (UTC)", "why / way out")
    nothing = "nothing in the database blocks deletions" if listed.temporal_away else "nothing blocks deletions"
    show_table("" if listed.rows else nothing, columns, [_row(b) for b in listed.rows])


def _row(b: "Blocker") -> tuple[object, ...]:
    reason = ": ".join(text for text in (b.by and f"by {b.by}", first_line(b.why)) if text)
    explanation = "; ".join(text for text in (reason, b.way_out) if text)
    return b.instance, b.held_by, b.what, utc_column(b.since), utc_column(b.until), explanation
