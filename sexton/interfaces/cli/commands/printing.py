"""Commands that print more than an operation returns: streams, files, and what there is without a database."""

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.check.model import FindingType
from sexton.insight.wording import first_line, quantity, utc_column
from sexton.interfaces.cli.context import OptionalInstance, open_database
from sexton.interfaces.cli.operations import command, finish
from sexton.interfaces.cli.output import begin_lines, emit, emit_line, wants_json
from sexton.interfaces.cli.render.results import show_rows
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.operations.registry import operation_named
from sexton.replication.binlog.model import MAX_COMMIT_SEQ

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sexton.operators.call_log import CallRow, CallStore

PAGE = 1_000
POLL_SECONDS = 1.0
LOG, SETTINGS = operation_named("log", "control"), operation_named("settings show", "settings")
FINDINGS = operation_named("check findings", "checks")


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
        command(LOG)(instance=instance, who=who, after=after, limit=last)
        return
    if after is not None:
        raise WrongUsage("--after goes with neither --follow nor --since: to resume a stream behind a row, --since ID")
    if not wants_json():
        raise WrongUsage("--follow and --since print rows as lines of JSON; add --json")
    with open_database() as service:
        calls = service.stores.calls
        start = calls.newest() if since is None else since
        _stream(calls, start, lambda row: instance in (None, row.instance) and who in row.who, follow=follow)


def _stream(calls: "CallStore", after: int, is_wanted: "Callable[[CallRow], bool]", *, follow: bool) -> None:
    """Print the rows behind one as lines of JSON; with ``follow``, wait for more, also while the database is away."""
    from sexton.database.engine import AWAY, first_line

    begin_lines()
    while True:
        rows: Sequence[CallRow] = ()
        try:
            rows = calls.rows(after, PAGE)
        except AWAY as e:
            if not follow:
                raise
            away = f"the database does not answer ({first_line(e)})"
            typer.echo(f"{away}; rows behind {after} follow when it does", err=True)
        for row in rows:
            if is_wanted(row):
                emit_line(row.model_dump_json())
            after = row.id
        if len(rows) < PAGE:
            if not follow:
                return
            time.sleep(POLL_SECONDS)


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
                    size = "" if row.bytes is None else f" {row.bytes} bytes"
                    mark = f"({row.kind} {row.id}, batch {row.batch}){f': {row.reason}' if row.reason else ''}"
                    when = utc_column(row.at, "seconds")
                    typer.echo(f"{when}  {row.outcome}  {row.vault}  {row.key}{size}  {mark}")
    if not any_printed:
        none = f"the deletion log has no object of round {number}"
        what = f"no object of round {number} is {outcome}" if outcome else none
        typer.echo(f"{what}; it contains the objects of finished marks", err=True)


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
    from sexton.check.columns import write

    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        read = partial(service.stores.checks.findings, name, confirmed=confirmed, of=type_)
        typer.echo(f"{quantity(write(parquet, after, read), 'finding')} of {name} in {parquet}")


def settings(
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
) -> None:
    """Print settings, without those of the database where there is none."""
    from config.settings import explain
    from sexton.database.engine import AWAY
    from sexton.operations.settings import SettingList

    own = explain()
    try:
        command(SETTINGS)(instance=instance)
    except (SextonError, *AWAY) as e:
        if instance:
            raise
        typer.echo(f"without the settings in the database: {first_line(str(e))}", err=True)
        finish("settings show", SettingList(items=tuple(own), ignored=()), {})


def journal(
    after: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_COMMIT_SEQ, help="Only entries after this one; default: all that exist."),
    ] = None,
    instance: OptionalInstance = None,
) -> None:
    """Print the journal that followers replay.

    A hundred entries at a time, the oldest first.

    Example: sexton binlog journal --after 100
    """
    with open_database() as service:
        store, name = service.stores.binlogs.journal, service.stores.registry.resolve_instance(instance)
        if after is None:
            with service.db.read() as c:
                after = store.bounds(c, name)[1]
        page = store.read(name, after)
    emit(page)
    if not page.entries:
        typer.echo(f"the journal of {name} has no entry after {after}; the last was {page.head}")
    show_rows(page.entries)
    if page.entries and page.entries[-1].seq < page.head:
        typer.echo(f"it ends at {page.head}; the next: --after {page.entries[-1].seq}")


log.__doc__, findings.__doc__, settings.__doc__ = LOG.about, FINDINGS.about, SETTINGS.about
COMMANDS = {
    "log": log,
    "deletions": deletions,
    "check findings": findings,
    "settings show": settings,
    "binlog journal": journal,
}
