"""Explain one object or mark: one box for a key, an id or an address."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.views import NOW, Story
from sexton.interfaces.api.caller import covered_instance
from sexton.interfaces.api.routes import control
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)
MAX_NAME = 2_048


@routes.get("/why")
def why(visit: CurrentVisit, key: str = "") -> Response:
    """Show the story of a key or an id as a timeline."""
    if len(key) > MAX_NAME:
        raise BadInput(f"a key or an id has up to {MAX_NAME:,} characters, this one has {len(key):,}")
    stories: tuple[Story, ...] = ()
    if visit.named is not None:
        visit.caller.require(Grant.READ, visit.named)
    if key:
        instance = covered_instance(visit.service, visit.caller, visit.named)
        stories = control.why(key, visit.service, visit.caller, instance).stories
    return visit.show("why.html", "why", cli=f"sexton why {key or 'KEY'}", key=key, stories=stories, blocks=NOW)
