"""The first page: what each instance does, what waits, what blocks it, and what needs an answer."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.running import read_running
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)


@routes.get("")
def overview(visit: CurrentVisit) -> Response:
    """Show one instance, or every one that the caller may see."""
    only = visit.named
    if only is not None:
        visit.caller.require(Grant.READ, only)
    service = visit.service
    names = [only] if only is not None else visit.instances
    statuses = [service.status(name).instances[0] for name in names]
    running = [work for work in read_running(service.db, only) if work.instance in names]
    cli = f"sexton status {only}" if only else "sexton status"
    return visit.show("overview.html", "overview", cli=cli, statuses=statuses, running=running)
