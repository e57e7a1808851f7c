"""Marks that rounds gave up for now: why, and whether they are tried again or discarded."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.status import count_quarantined
from sexton.interfaces.api.errors import OtherChange
from sexton.interfaces.api.routes import marks as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.interfaces.wording import quantity
from sexton.operators.access.model import Grant
from sexton.protocol.operating import Discarding, MarkQuery, RetryOrder

routes = APIRouter(prefix=f"{session.PATH}/quarantine", route_class=GuardedPage)
SHOWN = 100


@routes.get("")
def quarantine(visit: CurrentVisit, after: str = "") -> Response:
    """Show quarantined marks and their reasons."""
    with visit.service.db.read() as c:
        reasons = count_quarantined(visit.service.db, c, visit.instance)
    query = MarkQuery(state="QUARANTINED", after=after[:2_048], limit=SHOWN)
    listed = api.marks(visit.instance, query, visit.service, visit.caller)
    return visit.show(
        "quarantine.html",
        "quarantine",
        cli=f"sexton quarantine list {visit.instance}",
        instance=visit.instance,
        reasons=reasons,
        marks=listed.marks,
        following=listed.next,
    )


@routes.post("/retry")
def retry(visit: CurrentVisit) -> Response:
    """Let the next round try marks again."""
    order = visit.read(RetryOrder)
    visit.caller.require(Grant.OPERATE, visit.instance)
    with visit.service.db.read() as c:
        counted = count_quarantined(visit.service.db, c, visit.instance).get(order.reason or "")
    # To retry CHANGED deletes objects that exist now: only as many as were shown.
    if order.deletes_current and counted is not None and str(counted.marks) != visit.form.get("marks", ""):
        what = quantity(counted.marks, "mark")
        raise OtherChange(f"{what} with reason {order.reason} are quarantined by now, not as many as the page showed")
    retried = api.retry(visit.instance, order, visit.service, visit.caller)
    return visit.done(f"The next round tries {quantity(retried.marks, 'mark')} again.", "quarantine")


@routes.post("/discard")
def discard(visit: CurrentVisit) -> Response:
    """Give a mark up; what is left of its files stays."""
    order = visit.read(Discarding)
    api.discard(visit.instance, order, visit.service, visit.caller)
    return visit.done(f"{order.mark} is discarded. What is left of its files stays.", "quarantine")
