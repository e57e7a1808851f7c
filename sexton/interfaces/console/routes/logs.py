"""The log of calls: who did what, and what was refused."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operations.fields import Before
from sexton.operators.access.model import EVERY_INSTANCE, Grant

routes = APIRouter(prefix=f"{session.PATH}/log", route_class=GuardedPage)
SHOWN = 100


@routes.get("")
def log(visit: CurrentVisit, who: str = "", after: Before = None) -> Response:
    """Show calls, the newest first: about an instance, or all of them if the caller may read all instances."""
    sees_all = visit.named is None and visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    instance = EVERY_INSTANCE if sees_all else visit.instance
    listed = visit.ask("log", instance=None if sees_all else instance, who=who[:200], after=after, limit=SHOWN)
    return visit.show(
        "log.html",
        "log",
        cli="sexton log" if sees_all else f"sexton log --instance {instance}",
        instance=None if sees_all else instance,
        calls=listed.items,
        who=who,
        following=listed.next,
    )
