"""Marks that rounds gave up for now: why, and whether they are tried again or discarded."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.status import count_quarantined
from sexton.insight.wording import quantity
from sexton.interfaces.api.problems import OtherChange
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=f"{session.PATH}/quarantine", route_class=GuardedPage)
SHOWN = 100


@routes.get("")
def quarantine(visit: CurrentVisit, after: str = "") -> Response:
    """Show quarantined marks and their reasons."""
    with visit.service.db.read() as c:
        reasons = count_quarantined(visit.service.db, c, visit.instance)
    listed = visit.ask("marks list", state="QUARANTINED", after=after[:2_048], limit=SHOWN)
    return visit.show(
        "quarantine.html",
        "quarantine",
        cli=f"sexton quarantine list {visit.instance}",
        instance=visit.instance,
        reasons=reasons,
        marks=listed.items,
        following=listed.next,
    )


@routes.post("/retry")
def retry(visit: CurrentVisit) -> Response:
    """Let the next round try marks again."""
    visit.caller.require(Grant.OPERATE, visit.instance)
    with visit.service.db.read() as c:
        counted = count_quarantined(visit.service.db, c, visit.instance).get(visit.form.get("cause", ""))
    # To retry CHANGED deletes objects that exist now: only as many as were shown.
    if visit.form.get("deletes_current") and counted is not None and str(counted.marks) != visit.form.get("marks", ""):
        what = quantity(counted.marks, "mark")
        raise OtherChange(
            f"{what} with reason {visit.form.get('cause')} are quarantined by now, not as many as the page showed"
        )
    retried = visit.ask("quarantine retry")
    return visit.done(f"The next round tries {quantity(retried.marks, 'mark')} again.", "quarantine")


@routes.post("/discard")
def discard(visit: CurrentVisit) -> Response:
    """Give a mark up; what is left of its files stays."""
    given_up = visit.ask("quarantine discard")
    return visit.done(f"{given_up.kind}/{given_up.id} is discarded. What is left of its files stays.", "quarantine")
