"""The log of calls: who did what."""

from typing import Annotated

from fastapi import APIRouter, Query

from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pages import Before, Limit, page
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.operating import CallPage

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Who = Annotated[str, Query(max_length=200, description="a part of the caller's name")]


@routes.get("/log")
def log(
    service: Service,
    caller: CurrentCaller,
    instance: CoveredInstance,
    who: Who = "",
    after: Before = None,
    limit: Limit = 100,
) -> CallPage:
    """Return calls that deleted, blocked or configured something, and refusals, the newest first."""
    caller.require(Grant.READ, instance)
    of_instance = None if instance == EVERY_INSTANCE else instance
    shown, following = page(service.stores.calls.last(limit + 1, of_instance, who, before=after), limit)
    return CallPage(calls=shown, next=following)
