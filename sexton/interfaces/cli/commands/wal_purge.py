"""`sexton wal purge`, and what a running purge may be told."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.commands.wal import Name
from sexton.interfaces.cli.context import Json, ask_temporal, opened, recorded
from sexton.interfaces.cli.output import dump, many
from sexton.interfaces.cli.render.topics import last_purged, show_explained

if TYPE_CHECKING:
    from sexton.wal.messages import PurgeReport
    from sexton.wal.model import Topic


def purge(
    topic: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do; needs no Temporal.")] = False,
    as_json: Json = False,
) -> None:
    """Purge a topic now: have regions flush, persist how far it may go, delete what lies below. Prints what came of it.

    Ctrl-C stops waiting, not the purge.

    Example: sexton wal purge orders-wal
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.runtime.temporal.purges import PURGES
    from sexton.wal.explain import explain
    from sexton.wal.messages import PurgeOutcome, PurgeRequest
    from sexton.wal.sql.store import WalStore

    with opened() as (settings, db):
        store = WalStore(db)
        store.topic(topic)
        if dry_run:
            found = explain(db, OperatorService(settings, db).wal, topic)
            dump(found.model_dump(mode="json")) if as_json else show_explained(found)
            return
        with recorded(db, "wal purge", "", topic):
            request = PurgeRequest(topic=topic, requested_by="cli")
            report = PURGES.run(settings, request, lambda told: typer.echo(told, err=True))
        its = store.topic(topic)
    if as_json:
        dump(report.model_dump(mode="json"))
    else:
        _show(its, report)
    lost = report.purged is not None and report.purged.verdict.lost > 0
    if lost or report.outcome not in (PurgeOutcome.PURGED, PurgeOutcome.NOTHING):
        raise typer.Exit(1)


def progress(topic: Name) -> None:
    """Print what the running purge of a topic does.

    Example: sexton wal progress orders-wal
    """
    from sexton.runtime.temporal.purges import PURGES, describe
    from sexton.wal.sql.store import WalStore

    with opened() as (settings, db):
        WalStore(db).topic(topic)
        found = ask_temporal(settings, lambda client: PURGES.progress(client, settings, topic))
    typer.echo(f"topic {topic}: {describe(found)}")


def now(topic: Name) -> None:
    """Let a running purge wait for no flush any more.

    Example: sexton wal now orders-wal
    """
    _tell(topic, "purge_now", "it purges what may go now")


def cancel(topic: Name) -> None:
    """End the running purge of a topic before its next step.

    Example: sexton wal cancel orders-wal
    """
    _tell(topic, "cancel", "it ends before its next step")


def pause(topic: Name) -> None:
    """Pause the running purge of a topic before its next step. Rounds by the schedule go on: see `sexton wal disable`.

    Example: sexton wal pause orders-wal
    """
    _tell(topic, "pause", f"it waits, until: sexton wal resume {topic}")


def resume(topic: Name) -> None:
    """Let a paused purge go on.

    Example: sexton wal resume orders-wal
    """
    _tell(topic, "resume", "it goes on")


def retry(topic: Name) -> None:
    """Let a purge that backs off try again now.

    Example: sexton wal retry orders-wal
    """
    _tell(topic, "retry", "if it backs off, it tries again now")


def _tell(topic: str, signal: str, then: str) -> None:
    from sexton.runtime.temporal.purges import PURGES
    from sexton.wal.sql.store import WalStore

    with opened() as (settings, db):
        WalStore(db).topic(topic)
        with recorded(db, f"wal {signal}", "", topic, keeps=signal in ("cancel", "pause")):
            workers = ask_temporal(settings, lambda client: PURGES.signal(client, settings, topic, signal))
    typer.echo(f"the purge of topic {topic} is told: {then}")
    if not workers:
        typer.echo("no worker polls: it is heeded when one does (python -m worker)", err=True)


def _show(topic: "Topic", report: "PurgeReport") -> None:
    purged, flushed = report.purged, report.flushed
    freed = purged.freed if purged else 0
    typer.echo(
        f"topic {topic.name}: {report.outcome}; last_purged_entry_id {last_purged(topic)}, {freed:,} entries freed"
    )
    if flushed.asked or flushed.silent:
        typer.echo(f"  {many(flushed.asked, 'region')} asked to flush, {flushed.flushed} did in time")
    for late in flushed.late:
        typer.echo(f"  not in time: {late}")
    for node, why in flushed.silent.items():
        typer.echo(f"  node {node} was not asked: {why}")
    if purged is not None:
        if purged.verdict.quarantine:
            typer.echo(f"  quarantined: {purged.verdict.quarantine}; see: sexton wal explain {topic.name}")
        if purged.verdict.lost:
            regions = many(purged.verdict.lost, "region")
            typer.echo(f"  LOSS: {regions} lack entries that are gone; see: sexton wal explain {topic.name}")
        for block in purged.verdict.blocked:
            typer.echo(f"  blocked: {block.said}")
        if purged.verdict.holders:
            typer.echo(f"  what is left is held by {', '.join(purged.verdict.holders[:5])}; see: sexton wal explain")
    if report.error:
        typer.echo(f"  error: {report.error}")
