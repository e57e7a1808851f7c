"""Who may use the API and this console, for administrators."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit, Visit
from sexton.operations.tokens import CreatedToken

routes = APIRouter(prefix=f"{session.PATH}/access", route_class=GuardedPage)


@routes.get("")
def access(visit: CurrentVisit) -> Response:
    """Show the tokens."""
    return _page(visit, None)


@routes.post("/tokens")
def create(visit: CurrentVisit) -> Response:
    """Create a token and show its secret, once."""
    return _page(visit, visit.ask("token create"))


def _page(visit: Visit, created: CreatedToken | None) -> Response:
    tokens = visit.ask("token list").items
    answer = visit.show("access.html", "access", cli="sexton token list", tokens=tokens, created=created)
    if created is not None:
        answer.headers["Cache-Control"] = "no-store"
    return answer
