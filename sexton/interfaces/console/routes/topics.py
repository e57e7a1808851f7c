"""Topics of the write-ahead log: how far each is purged, and which region holds it back."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.wal.orders import TOPIC

routes = APIRouter(prefix=f"{session.PATH}/topics", route_class=GuardedPage)
MAX_TOPIC = 249
Topic = Annotated[str, Path(pattern=TOPIC)]


@routes.get("")
def topics(visit: CurrentVisit, after: str = "") -> Response:
    """Show the topics of an instance."""
    listed = visit.ask("wal list", instance=visit.instance, after=after[:MAX_TOPIC])
    cli, rows = f"sexton wal list {visit.instance}", listed.items
    return visit.show("topics.html", "topics", cli=cli, instance=visit.instance, topics=rows, following=listed.next)


@routes.get("/{topic}")
def show(visit: CurrentVisit, topic: Topic) -> Response:
    """Show how far a topic is purged, and which regions block the rest, the one that needs most first."""
    seen = visit.ask("wal regions", topic=topic)
    purges = visit.ask("wal purges", topic=topic).items
    cli, instance = f"sexton wal regions {topic}", seen.topic.instance
    return visit.show("topic.html", "topics", cli=cli, instance=instance, seen=seen, purges=purges)
