"""A password for a token: the one route beside health that needs none."""

from fastapi import APIRouter, Request, Response

from sexton.operators.access import policy
from sexton.operators.access.login import Logins
from sexton.protocol.access import MAX_LOGIN_BYTES, Credentials, Issued

routes = APIRouter(prefix="/v1")


@routes.post("/token", max_body_size=MAX_LOGIN_BYTES)
def token(body: Credentials, request: Request, response: Response) -> Issued:
    """Give a user a token for some minutes; it ends with the user, and when the password changes. Needs no token."""
    logins: Logins = request.app.state.logins
    scope = None if body.scope is None else policy.scope(body.scope)
    source = request.client.host if request.client else "unknown"
    made, text = logins.login(body.user, body.password, source, scope, body.ttl_seconds)
    response.headers["Cache-Control"] = "no-store"
    return Issued(token=text, id=made.id, scope=str(made.scope), expires_at=made.expires_at)
