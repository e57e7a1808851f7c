"""Tokens of the API. Only an administrator reads or changes them."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from sexton.interfaces.api.caller import CurrentCaller, Deed, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operators.access import policy
from sexton.operators.access.model import EVERY_INSTANCE, Grant, Token
from sexton.protocol.access import (
    CreatedToken,
    NewToken,
    ShownToken,
    TokenList,
    TokenRenewal,
)

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
TokenId = Annotated[str, Path(max_length=200, description="its id; of a whole token, only the id is used and logged")]


@routes.get("/tokens")
def tokens(service: Service, caller: CurrentCaller) -> TokenList:
    """Return every token without its secret, the newest first."""
    caller.require(Grant.ADMIN, EVERY_INSTANCE)
    return TokenList(tokens=tuple(map(_shown_token, service.stores.tokens.all())))


@routes.post("/tokens", status_code=201)
def create_token(body: NewToken, response: Response, service: Service, caller: CurrentCaller) -> CreatedToken:
    """Create a token. Its secret is in this answer only."""
    scope = policy.scope(body.scope)
    with caller.recorded(Deed("token create", "", Grant.ADMIN, str(scope), body.note)):
        created, secret = service.stores.tokens.create(scope, body.days, caller.name, body.note)
    response.headers["Cache-Control"] = "no-store"
    return CreatedToken(token=_shown_token(created), secret=secret)


@routes.post("/tokens/{token}/renew")
def renew_token(token: TokenId, body: TokenRenewal, service: Service, caller: CurrentCaller) -> ShownToken:
    """Let a token end so many days from now; its secret stays."""
    token = policy.token_id(token)
    with caller.recorded(Deed("token renew", "", Grant.ADMIN, token, f"for {body.days} days")):
        return _shown_token(service.stores.tokens.renew(token, body.days))


@routes.delete("/tokens/{token}")
def revoke_token(token: TokenId, service: Service, caller: CurrentCaller) -> ShownToken:
    """Revoke a token: its next request is refused. Idempotent."""
    token = policy.token_id(token)
    with caller.recorded(Deed("token revoke", "", Grant.ADMIN, token)):
        return _shown_token(service.stores.tokens.revoke(token, caller.name))


def _shown_token(token: Token) -> ShownToken:
    values = token.model_dump(exclude={"id", "scope"})
    return ShownToken(token=token.id, scope=str(token.scope), **values)
