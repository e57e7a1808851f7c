"""Tokens and users of the API. Only an administrator reads or changes them."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from sexton.interfaces.api.caller import CurrentCaller, Deed, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operators.access import credentials, policy
from sexton.operators.access.model import EVERY_INSTANCE, Grant, Token, User
from sexton.protocol.access import (
    CreatedToken,
    NewPassword,
    NewToken,
    NewUser,
    ShownToken,
    ShownUser,
    TokenList,
    TokenRenewal,
    UserList,
)

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
TokenId = Annotated[str, Path(max_length=200, description="its id; of a whole token, only the id is used and logged")]
UserName = Annotated[str, Path(max_length=100)]


@routes.get("/tokens")
def tokens(service: Service, caller: CurrentCaller) -> TokenList:
    """Return every token without its secret, the newest first; of users' tokens only valid ones."""
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


@routes.get("/users")
def users(service: Service, caller: CurrentCaller) -> UserList:
    """Return every user in the order of their names, removed ones included."""
    caller.require(Grant.ADMIN, EVERY_INSTANCE)
    return UserList(users=tuple(map(_shown_user, service.stores.users.all())))


@routes.post("/users", status_code=201)
def add_user(body: NewUser, service: Service, caller: CurrentCaller) -> ShownUser:
    """Add a user, who may request tokens of up to this scope with the password."""
    caller.require(Grant.ADMIN, EVERY_INSTANCE)
    credentials.check_name(body.user)  # else a password in the wrong field would be logged
    scope = policy.scope(body.scope)
    with caller.recorded(Deed("user add", "", Grant.ADMIN, body.user, f"scope {scope}")):
        return _shown_user(service.stores.users.add(body.user, body.password, scope, caller.name))


@routes.put("/users/{user}/password", status_code=204)
def set_password(user: UserName, body: NewPassword, service: Service, caller: CurrentCaller) -> None:
    """Set another password for a user; tokens issued for the old one end."""
    caller.require(Grant.ADMIN, EVERY_INSTANCE)
    credentials.check_name(user)
    with caller.recorded(Deed("user password", "", Grant.ADMIN, user)):
        service.stores.users.change(user, body.password, caller.name)


@routes.delete("/users/{user}", status_code=204)
def remove_user(user: UserName, service: Service, caller: CurrentCaller) -> None:
    """Remove a user now, and revoke every token issued for the password."""
    caller.require(Grant.ADMIN, EVERY_INSTANCE)
    credentials.check_name(user)
    with caller.recorded(Deed("user remove", "", Grant.ADMIN, user)):
        service.stores.users.remove(user, caller.name)


def _shown_token(token: Token) -> ShownToken:
    values = token.model_dump(exclude={"id", "scope", "of_user"})
    return ShownToken(token=token.id, scope=str(token.scope), user=token.of_user or "", **values)


def _shown_user(user: User) -> ShownUser:
    return ShownUser(user=user.name, scope=str(user.scope), **user.model_dump(exclude={"name", "scope"}))
