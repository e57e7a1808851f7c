"""`sexton wal`: list Kafka topics that regions share, how far each is purged, and what blocks the rest."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, log_call, one_instance, open_database, require_reason
from sexton.interfaces.cli.groups import EMERGENCIES
from sexton.interfaces.cli.json_output import emit, emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.topics import purge_row, show_explanation, topic_row
from sexton.interfaces.wording import quantity

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService

app = typer.Typer(help="Kafka topics that regions share, and how far they are purged.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Topics.")]
Reason = Annotated[str, typer.Option(help="Why; other operators will read it.")]
PAGE_ROWS = 1_000


@app.command("list")
def list_(
    after: Annotated[str, typer.Option(help="Only topics whose names come after this one.")] = "",
    instance: Annotated[str | None, typer.Argument(metavar="INSTANCE", help="Only topics of this instance.")] = None,
) -> None:
    """Print topics, a thousand at a time.

    How far each is purged, and what blocks it.

    Example: sexton wal list
    """
    with open_database() as service:
        store = service.stores.wal.store
        if instance is not None:
            service.stores.registry.instance(instance)
        page = store.topics(after, PAGE_ROWS + 1, instance=instance)
        lost_regions = store.lost([t.name for t in page])
        candidates = service.stores.wal.floors.regions_to_flush([t.name for t in page])
    topics, lagging = page[:PAGE_ROWS], Counter(candidate.topic for candidate in candidates)
    if wants_json():
        rows_json = [
            stable(t) | {"lost_regions": lost_regions.get(t.name, 0), "lagging_regions": lagging[t.name]}
            for t in topics
        ]
        emit_list(rows_json, more=len(page) > PAGE_ROWS)
        return
    rows = [topic_row(t, lost_regions.get(t.name, 0), lagging[t.name]) for t in topics]
    none = "no topic is known: owners send maps of them over the API; or begin with: sexton wal enable TOPIC"
    columns = ("topic", "instance", "purge", "last_purged_entry_id", "entries kept", "about", "checked (UTC)", "state")
    show_table("" if rows else none, columns, rows)
    if len(page) > PAGE_ROWS:
        typer.echo(f"these are the first {PAGE_ROWS}; the next: --after {topics[-1].name}")


@app.command("explain")
def explain(topic: Name) -> None:
    """Explain what a purge would delete now.

    Also which regions block the rest, and how far each has flushed. The command reads the log and decides as a purge
    does; it deletes nothing.

    Example: sexton wal explain orders-wal
    """
    from sexton.wal.explain import explain as explain_topic

    with open_database() as service:
        explanation = explain_topic(service.db, service.stores.wal, topic)
    if wants_json():
        emit(explanation)
    else:
        show_explanation(explanation)


@app.command("enable")
def enable(
    topics: Names,
    instance: Annotated[str | None, typer.Option(help="Whose topics they are; needed if there are several.")] = None,
    logical: Annotated[bool, typer.Option("--logical", help="Only raise floors; Kafka's retention deletes.")] = False,
) -> None:
    """Enable purges of topics. Nothing is deleted before the owner's map and the reports of all regions have arrived.

    A topic belongs to the instance whose owner mapped it first, or for which it was enabled first.

    Example: sexton wal enable orders-wal
    """
    from sexton.wal.model import Mode

    with open_database() as service:
        wal, of_instance = service.stores.wal, one_instance(service, instance)
        facts_by_topic = wal.log.facts(topics)
        for name in topics:
            with log_call(service, "wal enable", of_instance, name):
                wal.enable(name, Mode.LOGICAL if logical else Mode.DELETE, of_instance, facts_by_topic[name])
            typer.echo(f"topic {name} is purged from now on{', by its floor alone' if logical else ''}")
    typer.echo(f"see: sexton wal explain {topics[0]}")


@app.command("disable")
def disable(topics: Names) -> None:
    """Disable purges of topics. Entries whose deletion was already requested from the log are still deleted.

    Example: sexton wal disable orders-wal
    """
    with open_database() as service:
        for name in topics:
            with log_call(service, "wal disable", instance_of(service, name), name, blocks_deletion=True):
                service.stores.wal.store.disable(name)
            typer.echo(f"topic {name} is no longer purged, until: sexton wal enable {name}")


@app.command("purges")
def purges(topic: Name) -> None:
    """Print the newest purges of a topic.

    How far, when, what was deleted, and which regions blocked the rest.

    Example: sexton wal purges orders-wal
    """
    with open_database() as service:
        store = service.stores.wal.store
        store.topic(topic)
        history = store.purges(topic)
    if wants_json():
        emit_list(history)
        return
    columns = ("persisted (UTC)", "last_purged_entry_id", "last entry then", "entries freed", "who needed the oldest")
    show_table("" if history else "not purged yet", columns, [purge_row(p) for p in history])


@app.command("reset", rich_help_panel=EMERGENCIES)
def reset(
    topic: Name,
    reason: Reason,
    region: Annotated[str | None, typer.Option(help="Only this region: set what it still needs.")] = None,
    to: Annotated[int | None, typer.Option(min=0, help="The first entry that it needs.")] = None,
    epoch: Annotated[int | None, typer.Option(min=0, help="Its next epoch, if its last one is wrong.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Accept lost entries, or a recreated topic.

    A reset ends a LOSS, or a quarantine. With --region: the region needs nothing below --to (by default: what is
    deleted), and opens there. Without: all that is known of the topic is forgotten; it is purged again when its owner
    has sent its map and its regions have reported, in newer epochs.

    Example: sexton wal reset orders-wal --region 17 --reason 'restored from last night, the gap is accepted'
    """
    text = require_reason(reason)
    if region is None and (to is not None or epoch is not None):
        raise WrongUsage("--to and --epoch set what one region needs: name it with --region")
    with open_database() as service:
        instance = instance_of(service, topic)
        if not yes:
            typer.confirm(_reset_question(topic, region), abort=True, err=True)
        subject = topic if region is None else f"{topic}/{region}"
        with log_call(service, "wal reset", instance, subject, text):
            if region is None:
                service.stores.wal.resets.reset_topic(topic)
            else:
                reset_region = service.stores.wal.resets.reset_region(topic, region, to, epoch)
    if region is None:
        typer.echo(f"topic {topic} is forgotten: its owner must send its map again, with newer epochs")
    else:
        start, lowest = reset_region.keep_from, max(0, reset_region.epoch)
        typer.echo(
            f"region {region} needs topic {topic} from entry {start} on; it opens there, in epoch {lowest} or above"
        )


@app.command("assign", rich_help_panel=EMERGENCIES)
def assign(
    topic: Name,
    instance: Annotated[str, typer.Argument(help="Whose topic it is from now on.")],
    reason: Reason,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give a topic to another instance, and forget all that is known of it, as a reset does.

    It is purged again when the new owner has sent its map and its regions have reported, in newer epochs.

    Example: sexton wal assign orders-wal shop --reason 'the map of test had the wrong name'
    """
    text = require_reason(reason)
    with open_database() as service:
        before, after = instance_of(service, topic), one_instance(service, instance)
        if not yes:
            typer.confirm(f"Take topic {topic} from {before} and give it to {after}?", abort=True, err=True)
        with log_call(service, "wal assign", after, f"{topic}, of {before} before", text):
            service.stores.wal.resets.reset_topic(topic, after)
    typer.echo(f"topic {topic} belongs to {after}: its owner must send its map now, with newer epochs")


@app.command("restored", rich_help_panel=EMERGENCIES)
def restored(reason: Reason) -> None:
    """Report that Sexton's database was restored.

    No topic is purged before its owner has sent its map again.

    Example: sexton wal restored --reason 'restored from last night'
    """
    text = require_reason(reason)
    with open_database() as service, log_call(service, "wal restored", "", "", text, blocks_deletion=True):
        waiting = service.stores.wal.resets.distrust_maps()
    typer.echo(f"{quantity(waiting, 'enabled topic waits', 'enabled topics wait')} for a map of the owner")


def instance_of(service: "OperatorService", topic: str) -> str:
    """Return the instance of a topic, for the log of calls. Raise ``UnknownTopic``."""
    return service.stores.wal.store.topic(topic).instance


def _reset_question(topic: str, region: str | None) -> str:
    if region is None:
        return f"Forget all that is known of topic {topic}?"
    return f"Give up the entries that region {region} of topic {topic} is missing?"
