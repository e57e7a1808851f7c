"""The log of calls: who did what, and what was refused."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.pages import Before
from sexton.interfaces.api.routes import call_log as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operators.access.model import EVERY_INSTANCE, Grant

routes = APIRouter(prefix=f"{session.PATH}/log", route_class=GuardedPage)
SHOWN = 100


@routes.get("")
def log(visit: CurrentVisit, who: str = "", after: Before = None) -> Response:
    """Show calls, the newest first: about an instance, or all of them if the caller may read all instances."""
    sees_all = visit.named is None and visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    instance = EVERY_INSTANCE if sees_all else visit.instance
    listed = api.log(visit.service, visit.caller, instance, who[:200], after, SHOWN)
    return visit.show(
        "log.html",
        "log",
        cli="sexton log" if sees_all else f"sexton log --instance {instance}",
        instance=None if sees_all else instance,
        calls=listed.calls,
        who=who,
        following=listed.next,
    )
