"""Holds: until a hold ends, no mark that it covers is claimed."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pages import Before, Limit, page
from sexton.interfaces.api.pools import reserved
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import UnknownHold
from sexton.protocol.operating import HoldPage, NewHold, PlacedHold, Why

routes = APIRouter(prefix="/v1/instances/{instance}/holds", route_class=GuardedRoute)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
Ended = Annotated[bool, Query(description="also holds that were released, or have expired")]


@routes.get("")
def holds(
    instance: str,
    service: Service,
    caller: CurrentCaller,
    ended: Ended = False,
    after: Before = None,
    limit: Limit = 100,
) -> HoldPage:
    """Return holds, the newest first: what each covers, until when, who placed it and why."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    rows, _ = service.stores.holds.newest(instance, limit + 1, active=not ended, before=after)
    shown, following = page(rows, limit)
    return HoldPage(holds=shown, next=following)


@routes.post("", status_code=201)
@reserved
def place(instance: str, body: NewHold, service: Service, caller: CurrentCaller) -> PlacedHold:
    """Place a hold. Marks that are claimed already are deleted all the same; ``too_late`` counts them."""
    fields = body.model_dump(exclude={"seconds"})
    hold = Hold(instance=instance, placed_by=caller.name, **fields)
    with caller.recorded(Deed("hold", instance, Grant.OPERATE, hold.what, hold.reason), keeps=True):
        placed, too_late = service.stores.holds.place(hold, body.seconds)
    covers = service.stores.holds.count_blocked(placed)
    return PlacedHold(
        hold=placed,
        too_late=too_late,
        blocks_now=None if covers is None else covers.blocked,
        matches_now=None if covers is None else covers.matching,
        may_block=None if covers is None else covers.above,
    )


@routes.post("/{hold}/release")
def release(instance: str, hold: Number, service: Service, caller: CurrentCaller, body: Why | None = None) -> Hold:
    """End a hold now; the next round may delete what it blocked. Idempotent."""
    with caller.recorded(Deed("hold release", instance, Grant.OPERATE, str(hold), body.reason if body else "")):
        if service.stores.holds.instance_of(hold) != instance:
            raise UnknownHold(f"instance {instance} has no hold {hold}")
        return service.stores.holds.release(hold)
