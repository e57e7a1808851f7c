"""Topics of the write-ahead log: how far each is purged, and which region holds it back."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import wal as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit

routes = APIRouter(prefix=f"{session.PATH}/topics", route_class=GuardedPage)
MAX_TOPIC, SHOWN = 249, 1_000


@routes.get("")
def topics(visit: CurrentVisit, after: str = "") -> Response:
    """Show the topics of an instance."""
    listed = api.topics(visit.service, visit.caller, visit.instance, after[:MAX_TOPIC]).topics
    cli, following = f"sexton wal list {visit.instance}", listed[-1].name if len(listed) >= SHOWN else ""
    return visit.show("topics.html", "topics", cli=cli, instance=visit.instance, topics=listed, following=following)
