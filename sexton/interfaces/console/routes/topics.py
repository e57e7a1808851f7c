"""Topics and binlogs: how far each is purged or cut, and which regions, consumers and replicas block the rest."""

from starlette.responses import Response

from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.kernel.errors import BadInput

MAX_NAME, REPLICAS_SHOWN = 256, 100


@pages.get("/topics")
def topics(visit: CurrentVisit, after: str = "") -> Response:
    """Show the topics of an instance, or of all."""
    listed = visit.ask("wal list", instance=visit.scope, after=after[:MAX_NAME])
    return visit.about("topics", "sexton wal list", topics=listed.items, following=listed.next)


@pages.get("/topics/{topic}")
def show(visit: CurrentVisit, topic: str) -> Response:
    """Show how far a topic is purged, and which regions block the rest, the one that needs most first."""
    seen = visit.ask("wal regions", topic=topic)
    purges = visit.ask("wal purges", topic=topic).items
    cli, instance = f"sexton wal regions {topic}", seen.topic.instance
    return visit.show("topic.html", "topics", cli=cli, instance=instance, seen=seen, purges=purges)


@pages.get("/binlogs")
def binlogs(visit: CurrentVisit, after: str = "") -> Response:
    """Show the logs of an instance, their consumers, and replicas at fault."""
    logs = visit.ask("binlog list", after=after[:MAX_NAME])
    replicas = visit.ask("replica list", limit=REPLICAS_SHOWN)
    return visit.about(
        "binlogs",
        "sexton binlog list",
        logs=logs.items,
        following=logs.next,
        consumers=visit.ask("binlog consumers").items,
        replicas=[(replica, replica.faults) for replica in replicas.items],
        more_replicas=replicas.more,
    )


@pages.post("/binlogs/approve")
def approve(visit: CurrentVisit) -> Response:
    """Approve a very large cut, after its last record was typed."""
    shown, typed = visit.form.get("upto", ""), visit.form.get("typed", "").replace(",", "")
    if typed != shown:
        raise BadInput(f"to approve this cut, type the number of its last record: {shown[:20]}")
    return visit.sent("binlog approve", "binlogs")
