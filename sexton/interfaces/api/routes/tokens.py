"""Exchange a password for a token. Besides health, this is the only route that needs no token."""

from fastapi import APIRouter, Request, Response

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operators.access import policy
from sexton.operators.access.login import Logins
from sexton.protocol.access import MAX_LOGIN_BYTES, Credentials, IssuedToken

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)


@routes.post("/token", max_body_size=MAX_LOGIN_BYTES)
def token(body: Credentials, request: Request, response: Response) -> IssuedToken:
    """Issue a token that lasts some minutes. It ends earlier if the user is removed or the password changes."""
    logins: Logins = request.app.state.logins
    scope = None if body.scope is None else policy.scope(body.scope)
    issued, secret = logins.login(body.user, body.password, source_of(request), scope, body.ttl_seconds)
    response.headers["Cache-Control"] = "no-store"
    return IssuedToken(token=secret, id=issued.id, scope=str(issued.scope), expires_at=issued.expires_at)
