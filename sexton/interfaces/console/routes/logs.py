"""The log of calls: who did what, and what was refused."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.pages import Before
from sexton.interfaces.api.routes import call_log as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit

routes = APIRouter(prefix=f"{session.PATH}/log", route_class=GuardedPage)
SHOWN = 100


@routes.get("")
def log(visit: CurrentVisit, who: str = "", after: Before = None) -> Response:
    """Show the calls about an instance, the newest first."""
    listed = api.log(visit.service, visit.caller, visit.instance, who[:200], after, SHOWN)
    return visit.show(
        "log.html",
        "log",
        cli=f"sexton log --instance {visit.instance}",
        instance=visit.instance,
        calls=listed.calls,
        who=who,
        following=listed.next,
    )
