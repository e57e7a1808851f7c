"""`sexton status`: show every instance on one screen. It needs only the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, open_database
from sexton.interfaces.cli.doctor.tokens import expiry_text
from sexton.interfaces.cli.json_output import emit, stable, wants_json
from sexton.interfaces.cli.render.status import show_binlogs, show_instance, show_purges, show_topics
from sexton.kernel.printable import printable
from sexton.operators.controls.policy import halt_by_instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.insight.metrics.model import WalFigures
    from sexton.insight.views import RunningWork
    from sexton.interfaces.operator_service import OperatorService
    from sexton.operators.access.model import Token
    from sexton.replication.binlog.sql.figures import LogCounts

MOST_HALTS = 5


def status(
    instance: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show what runs, each second, until Ctrl-C.")] = False,
) -> None:
    """Print every instance on one screen.

    What is running, waiting, due, kept and quarantined. Needs neither Temporal nor vaults. Of one instance: without
    topics, binlogs and tokens.

    Example: sexton status --watch
    """
    from sexton.insight.running import read_running

    if watch and wants_json():
        raise WrongUsage("--watch is for people; programs call sexton status --json again")
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        if watch:
            from sexton.interfaces.cli import watching

            watching.watch(lambda: read_running(service.db, instance), lambda: _halts(service, instance))
            return
        running = read_running(service.db, instance)
        overview, topics, binlogs = service.status(instance), service.wal_figures(), _binlog_counts(service.db)
        expiring = service.stores.tokens.expiring()
        settings = service.settings
    if wants_json():
        tokens = [{"token": t.id, "scope": str(t.scope), "expires_at": t.expires_at} for t in expiring]
        works = [stable(work) for work in running]
        emit(overview, topics=stable(topics), binlogs=stable(binlogs), running=works, expiring_tokens=tokens)
        return
    if overview.instances:
        typer.echo(f"{overview.slots_used} of {overview.slots} slots for rounds are in use\n")
    else:
        typer.echo("no instance is registered; begin with: sexton instance add NAME")
    for row in overview.instances:
        show_instance(row)
    if instance is None:
        _show_the_rest(topics, binlogs, running, expiring)
    _show_links(settings, running)


def _halts(service: "OperatorService", instance: str | None) -> list[str]:
    """Return a line for each halted instance, a few of them."""
    controls, registry = service.stores.controls, service.stores.registry
    names = [i.id for i in registry.instances()] if instance is None else [instance]
    with service.db.read() as c:
        halted = halt_by_instance(controls.all_in(c), service.db.now(c))
    lines = [f"{name} is halted: {printable(str(why))}" for name in names if (why := halted(name)) is not None]
    return [*lines[:MOST_HALTS], *([f"and {len(lines) - MOST_HALTS:,} more"] if len(lines) > MOST_HALTS else [])]


def _show_the_rest(
    topics: "WalFigures", binlogs: "LogCounts", running: "Sequence[RunningWork]", expiring: "Sequence[Token]"
) -> None:
    """Print what belongs to no one instance."""
    if topics.topics:
        show_topics(topics)
        show_purges(running)
    if binlogs.databases:
        show_binlogs(binlogs)
    for token in expiring:
        typer.echo(f"{expiry_text(token)}; renew it: sexton token renew {token.id}")


def _show_links(settings: "Settings", running: "Sequence[RunningWork]") -> None:
    """Print where the Temporal UI is, and what runs in it."""
    from sexton.runtime.temporal.links import link_of

    if settings.temporal.ui_url:
        typer.echo(f"Temporal UI: {settings.temporal.ui_url}")
        for work in running:
            typer.echo(f"  {work.work} {work.name} of {work.instance}: {link_of(settings, work)}")


def _binlog_counts(db: "Database") -> "LogCounts":
    from sexton.replication.binlog.sql.figures import count_logs

    with db.read() as c:
        return count_logs(db, c)
