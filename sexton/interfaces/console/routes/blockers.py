"""What blocks deletion now: everything with its way out; holds are placed and released here."""

import re
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from sexton.interfaces.api.lanes import reserved
from sexton.interfaces.api.routes import holds as api
from sexton.interfaces.blockers.listing import list_blockers
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.interfaces.wording import quantity
from sexton.kernel.errors import BadInput
from sexton.protocol.operating import NewHold, Why

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
SHOWN = 50
DAY_SECONDS, MAX_DAYS = 86_400, 3_650
DAYS = re.compile(r"[1-9][0-9]{0,3}")


@routes.get("/blockers")
def blockers(visit: CurrentVisit) -> Response:
    """Show what blocks deletions of an instance."""
    listed = list_blockers(visit.service, visit.instance)
    holds = api.holds(visit.instance, visit.service, visit.caller, ended=False, after=None, limit=SHOWN)
    return visit.show(
        "blockers.html",
        "blockers",
        cli=f"sexton blockers {visit.instance}",
        instance=visit.instance,
        blockers=listed.rows,
        temporal_away=listed.temporal_away,
        holds=holds.holds,
        more_holds=bool(holds.next),
    )


@routes.post("/holds")
@reserved
def place(visit: CurrentVisit) -> Response:
    """Place a hold."""
    days = visit.form.get("days", "")
    if not DAYS.fullmatch(days) or int(days) > MAX_DAYS:
        raise BadInput("write for how many days the hold lasts: 1 to 3,650")
    kind, slash, id_ = visit.form.get("mark", "").partition("/")
    mark = {"mark_kind": kind, "mark_id": id_} if slash else {}
    new = visit.read(NewHold, seconds=int(days) * DAY_SECONDS, **mark)
    placed = api.place(visit.instance, new, visit.service, visit.caller)
    late = (
        f" Claimed already, and deleted all the same: {quantity(placed.too_late, 'mark')}." if placed.too_late else ""
    )
    return visit.done(f"Hold {placed.hold.id} blocks {placed.hold.what}.{late}", "blockers")


@routes.post("/holds/{hold}/release")
def release(visit: CurrentVisit, hold: Number) -> Response:
    """End a hold now."""
    ended = api.release(visit.instance, hold, visit.service, visit.caller, visit.read(Why))
    return visit.done(
        f"Hold {hold} has ended: it blocked {ended.what}. What else blocks it is listed here.", "blockers"
    )
