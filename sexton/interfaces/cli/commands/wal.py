"""`sexton wal`: Kafka topics that regions share, how far each is purged, and what keeps the rest."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, recorded, said
from sexton.interfaces.cli.output import dump, many, show
from sexton.interfaces.cli.render.topics import purge_row, show_explained, topic_row

app = typer.Typer(help="Kafka topics that regions share, and how far they are purged.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Topics.")]
Why = Annotated[str, typer.Option(help="Why; others will read it.")]
SHOWN = 1_000


@app.command("list")
def list_(
    after: Annotated[str, typer.Option(help="Only topics whose names come after this one.")] = "",
    as_json: Json = False,
) -> None:
    """Print topics, how far each is purged, and what keeps it; a thousand at a time.

    Example: sexton wal list
    """
    from sexton.wal.sql.store import WalStore

    with opened() as (_, db):
        store = WalStore(db)
        found = store.topics(after, SHOWN + 1)
        lost = store.lost([t.name for t in found])
    if as_json:
        dump([t.model_dump(mode="json") | {"lost_regions": lost.get(t.name, 0)} for t in found[:SHOWN]])
        return
    rows = [topic_row(t, lost.get(t.name, 0)) for t in found[:SHOWN]]
    none = "no topic is known: owners send maps of them over the API; or begin with: sexton wal enable TOPIC"
    columns = ("topic", "purge", "last_purged_entry_id", "entries kept", "about", "looked at (UTC)", "state")
    show("" if rows else none, columns, rows)
    if len(found) > SHOWN:
        typer.echo(f"these are the first {SHOWN}; the next: --after {found[SHOWN - 1].name}")


@app.command("explain")
def explain(topic: Name, as_json: Json = False) -> None:
    """Print what a purge of a topic would free now, who holds the rest, and how far each region has flushed.

    It asks the log and decides as a purge does; nothing is deleted.

    Example: sexton wal explain orders-wal
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.wal.explain import explain as explained

    with opened() as (settings, db):
        found = explained(db, OperatorService(settings, db).wal, topic)
    if as_json:
        dump(found.model_dump(mode="json"))
    else:
        show_explained(found)


@app.command("enable")
def enable(
    topics: Names,
    logical: Annotated[bool, typer.Option("--logical", help="Only raise floors; Kafka's retention deletes.")] = False,
) -> None:
    """Let topics be purged, from the next round on; nothing goes before the owner's map and all reports are there.

    Example: sexton wal enable orders-wal
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.kernel.errors import BadInput
    from sexton.wal.model import Mode
    from sexton.wal.port import LogFault

    with opened() as (settings, db):
        wal = OperatorService(settings, db).wal
        told = wal.log.facts(topics)
        for name in topics:
            its = told[name]
            if isinstance(its, LogFault):
                raise its  # also one that passes: a name that was mistyped would be on the list for ever
            if its.partitions != 1:
                raise BadInput(
                    f"topic {name} has {many(its.partitions, 'partition')}; an entry id means something in one"
                )
            with recorded(db, "wal enable", "", name):
                wal.store.enable(name, Mode.LOGICAL if logical else Mode.DELETE)
            typer.echo(f"topic {name} is purged from now on{', by its floor alone' if logical else ''}")
    typer.echo(f"see: sexton wal explain {topics[0]}")


@app.command("disable")
def disable(topics: Names) -> None:
    """Purge topics no more. What the log was told to delete already goes.

    Example: sexton wal disable orders-wal
    """
    from sexton.wal.sql.store import WalStore

    with opened() as (_, db):
        for name in topics:
            with recorded(db, "wal disable", "", name, keeps=True):
                WalStore(db).disable(name)
            typer.echo(f"topic {name} is purged no more, until: sexton wal enable {name}")


@app.command("purges")
def purges(topic: Name, as_json: Json = False) -> None:
    """Print the newest purges of a topic: how far, when, what went, and who held the rest.

    Example: sexton wal purges orders-wal
    """
    from sexton.wal.sql.store import WalStore

    with opened() as (_, db):
        store = WalStore(db)
        store.topic(topic)
        found = store.purges(topic)
    if as_json:
        dump([p.model_dump(mode="json") for p in found])
        return
    rows = [purge_row(p) for p in found]
    columns = ("persisted (UTC)", "last_purged_entry_id", "last entry then", "entries freed", "who needed the oldest")
    show("" if rows else "not purged yet", columns, rows)


@app.command("reset")
def reset(
    topic: Name,
    reason: Why,
    region: Annotated[str | None, typer.Option(help="Only this region: say what it still needs.")] = None,
    to: Annotated[int | None, typer.Option(min=0, help="The first entry that it needs.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Accept that entries of a region are lost, or that a topic was made anew. It ends a LOSS, or a quarantine.

    With --region: it needs nothing below --to (by default: what is gone), and opens there. Without: all that is known
    of the topic is forgotten; it is purged when its owner has mapped it and its regions have told, in newer epochs.

    Example: sexton wal reset orders-wal --region 17 --reason 'restored from last night, the gap is accepted'
    """
    from sexton.wal.sql.resets import ResetStore
    from sexton.wal.sql.store import WalStore

    why = said(reason)
    if to is not None and region is None:
        raise WrongUsage("--to says what one region needs: name it with --region")
    with opened() as (_, db):
        WalStore(db).topic(topic)
        what = f"region {region} of topic {topic}" if region is not None else f"all that is known of topic {topic}"
        if not yes:
            asked = f"give up what {what} lacks" if region is not None else f"forget {what}"
            typer.confirm(f"{asked}?", abort=True, err=True)
        with recorded(db, "wal reset", "", topic if region is None else f"{topic}/{region}", why):
            if region is None:
                ResetStore(db).topic(topic)
            else:
                reset_ = ResetStore(db).region(topic, region, to)
    if region is None:
        typer.echo(f"topic {topic} is as one never seen: its owner must send its map, with newer epochs")
    else:
        since = f"from entry {reset_.keep_from} on"
        typer.echo(f"region {region} needs topic {topic} {since}; it opens there, in epoch {reset_.epoch} or above")


@app.command("restored")
def restored(reason: Why) -> None:
    """Say that Sexton's database was restored from a copy: no topic is purged before its owner has sent its map again.

    Example: sexton wal restored --reason 'restored from last night'
    """
    from sexton.wal.sql.resets import ResetStore

    why = said(reason)
    with opened() as (_, db), recorded(db, "wal restored", "", "", why, keeps=True):
        waiting = ResetStore(db).restored()
    typer.echo(f"{many(waiting, 'enabled topic')} wait for the maps of their owners")
