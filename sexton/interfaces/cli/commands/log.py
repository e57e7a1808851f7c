"""`sexton log --follow` and `--since`: stream the rows of the log of calls."""

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import begin_lines, emit_line, wants_json
from sexton.interfaces.cli.operations import command
from sexton.kernel.errors import WrongUsage
from sexton.operations.registry import operation_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sexton.operators.call_log.model import CallRecord, CallRow
    from sexton.operators.call_log.store import CallStore

PAGE = 1_000
POLL_SECONDS = 1.0
OPERATION = operation_named("log", "control")


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
    last: Annotated[int, typer.Option(help="How many.", min=1, max=1_000)] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="With --json: print new rows until Ctrl-C.")] = False,
    after: Annotated[int | None, typer.Option(metavar="N", help="`next` of the page before.", min=1)] = None,
    since: Annotated[
        int | None, typer.Option(metavar="ID", help="With --json: the rows behind this one, the oldest first.", min=0)
    ] = None,
) -> None:
    """Print calls, or stream them."""
    if not follow and since is None:
        command(OPERATION)(instance=instance, who=who, after=after, limit=last)
        return
    if after is not None:
        raise WrongUsage("--after goes with neither --follow nor --since: to resume a stream behind a row, --since ID")
    if not wants_json():
        raise WrongUsage("--follow and --since print rows as lines of JSON; add --json")
    with open_database() as service:
        calls = service.stores.calls
        _stream(calls, calls.newest() if since is None else since, CallFilter(instance, who), follow=follow)


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


log.__doc__ = OPERATION.about
COMMANDS = {"log": log}
