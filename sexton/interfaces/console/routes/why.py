"""Explain one object or mark: one box for a key, an id or an address."""

import shlex

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.views import NOW, Story
from sexton.interfaces.api.pools import long
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)
MAX_NAME = 2_048


@routes.get("/why")
@long
def why(visit: CurrentVisit, key: str = "") -> Response:
    """Show the story of a key or an id as a timeline."""
    if len(key) > MAX_NAME:
        raise BadInput(f"a key or an id has up to {MAX_NAME:,} characters, this one has {len(key):,}")
    stories: tuple[Story, ...] = ()
    if visit.named is not None:
        visit.caller.require(Grant.READ, visit.named)
    if key:
        stories = visit.ask("why", key=key, instance=visit.named).items
    cli = f"sexton why {shlex.quote(key) if key else 'KEY'}" + (f" --instance {visit.named}" if visit.named else "")
    return visit.show("why.html", "why", cli=cli, key=key, stories=stories, blocks=NOW)
