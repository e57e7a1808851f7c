"""Who may use the API and this console, for administrators."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import access as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit, Visit
from sexton.kernel.errors import BadInput
from sexton.operators.access import policy
from sexton.protocol.access import CreatedToken, NewToken, TokenRenewal

routes = APIRouter(prefix=f"{session.PATH}/access", route_class=GuardedPage)
MAX_NAME = 200


@routes.get("")
def access(visit: CurrentVisit) -> Response:
    """Show the tokens."""
    return _page(visit, None)


@routes.post("/tokens")
def create(visit: CurrentVisit) -> Response:
    """Create a token and show its secret, once."""
    policy.scope(visit.form.get("scope", ""))  # its message names the scopes
    answer = Response()
    return _page(visit, api.create_token(visit.read(NewToken, **_days(visit)), answer, visit.service, visit.caller))


@routes.post("/tokens/renew")
def renew(visit: CurrentVisit) -> Response:
    """Let a token last longer."""
    order = visit.read(TokenRenewal, **_days(visit))
    renewed = api.renew_token(_name(visit, "token"), order, visit.service, visit.caller)
    return visit.done(f"Token {renewed.token} is valid for {order.days} days from now.", "access")


@routes.post("/tokens/revoke")
def revoke(visit: CurrentVisit) -> Response:
    """Revoke a token."""
    revoked = api.revoke_token(_name(visit, "token"), visit.service, visit.caller)
    return visit.done(f"Token {revoked.token} is revoked: its next request is refused.", "access")


def _page(visit: Visit, created: CreatedToken | None) -> Response:
    tokens = api.tokens(visit.service, visit.caller).tokens
    answer = visit.show("access.html", "access", cli="sexton token list", tokens=tokens, created=created)
    if created is not None:
        answer.headers["Cache-Control"] = "no-store"
    return answer


def _days(visit: Visit) -> dict[str, int]:
    days = visit.form.get("days", "90")
    if not days.isascii() or not days.isdecimal() or len(days) > 3:
        raise BadInput("write for how many days the token is valid: 1 to 366")
    return {"days": int(days)}


def _name(visit: Visit, field: str) -> str:
    name = visit.form.get(field, "")
    if not 0 < len(name) <= MAX_NAME:
        raise BadInput(f"the form names no {field}; open the page again, then send it")
    return name
