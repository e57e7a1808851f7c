"""`sexton log`: list who did what to this deployment, or stream the rows."""

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sexton.interfaces.cli.context import WrongUsage, open_database
from sexton.interfaces.cli.json_output import begin_lines, emit_line, emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sexton.operators.call_log.model import CallRecord, CallRow
    from sexton.operators.call_log.store import CallStore

COLUMNS = ("when (UTC)", "who", "from", "did", "instance", "what", "outcome", "why")
PAGE = 1_000
POLL_SECONDS = 1.0


class CallFilter(NamedTuple):
    """Which rows are printed; ``who``: a part of the caller's name, empty: of every caller."""

    instance: str | None
    who: str

    def matches(self, row: "CallRecord") -> bool:
        """Return whether a row is one of them."""
        return self.instance in (None, row.instance) and self.who in row.who


def log(
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
    who: Annotated[str, typer.Option(metavar="NAME", help="Only of callers whose name contains this.")] = "",
    last: Annotated[int, typer.Option(help="How many.", min=1, max=10_000)] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="With --json: print new rows until Ctrl-C.")] = False,
    after: Annotated[
        int | None, typer.Option(metavar="ID", help="With --json: the rows behind this one, the oldest first.", min=0)
    ] = None,
) -> None:
    """Print who did what, the newest first.

    Actions that delete, block or configure something, including those that were refused, and the rounds that workers
    began. An action is recorded before it is done. Outcome `asked`: its end was not recorded; `LEFT`: the caller did
    not wait for its end (Ctrl-C). Calls that programs repeat all the time (heartbeats, reports, renewals) are recorded
    only if they are refused. Records are kept for 400 days.

    `--follow --json` prints each row as one line of JSON, as it was stored, for a program that collects logs; `--after`
    resumes behind a row, 0 is the beginning.

    Example: sexton log --instance shop
    """
    streams = follow or after is not None
    if streams and not wants_json():
        raise WrongUsage("--follow and --after print rows as lines of JSON; add --json")
    with open_database() as service:
        calls = service.stores.calls
        if streams:
            _stream(calls, calls.newest() if after is None else after, CallFilter(instance, who), follow=follow)
        else:
            _show(calls.last(last + 1, instance, who), last)


def _show(calls: "Sequence[CallRecord]", last: int) -> None:
    if wants_json():
        emit_list(calls[:last], more=len(calls) > last)
        return
    rows = [
        (utc_column(c.at), c.who, c.source, c.action, c.instance, c.subject, c.outcome, c.reason) for c in calls[:last]
    ]
    show_table("" if rows else "no action is recorded yet", COLUMNS, rows)


def _stream(calls: "CallStore", after: int, wanted: CallFilter, *, follow: bool) -> None:
    """Print the rows behind one as lines of JSON; with ``follow``, wait for more, also while the database is away."""
    begin_lines()
    while True:
        rows = _rows(calls, after, follow=follow)
        for row in rows:
            if wanted.matches(row):
                emit_line(row.model_dump_json())
            after = row.id
        if len(rows) < PAGE:
            if not follow:
                return
            time.sleep(POLL_SECONDS)


def _rows(calls: "CallStore", after: int, *, follow: bool) -> "Sequence[CallRow]":
    from sexton.database.engine import AWAY, first_line

    try:
        return calls.rows(after, PAGE)
    except AWAY as e:
        if not follow:
            raise
        typer.echo(f"the database does not answer ({first_line(e)}); rows behind {after} follow when it does", err=True)
        return ()
