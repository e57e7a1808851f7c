"""Topics of the write-ahead log: how far each is purged, and which region holds it back."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import wal as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit

routes = APIRouter(prefix=f"{session.PATH}/topics", route_class=GuardedPage)
MAX_TOPIC = 249


@routes.get("")
def topics(visit: CurrentVisit, after: str = "") -> Response:
    """Show the topics of an instance."""
    found = api.topics(visit.service, visit.caller, visit.instance, after[:MAX_TOPIC]).topics
    return visit.show(
        "topics.html", "topics", cli=f"sexton wal list {visit.instance}", instance=visit.instance, topics=found
    )
