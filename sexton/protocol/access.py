"""The exchange of a password for a token; tokens and users, as administrators see them. Instants: ms since 1970."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message
from sexton.operators.access.credentials import MAX_PASSWORD, MAX_TTL_SECONDS, MIN_TTL_SECONDS, TTL_SECONDS
from sexton.protocol.body import PRINTABLE, Body

MAX_LOGIN_BYTES = 4 << 10
SCOPE = r"^(read|owner|operate|admin|(node|sync):[A-Za-z0-9][A-Za-z0-9._/-]{0,127})(@([a-z0-9][a-z0-9_-]{0,62}|\*))?$"
"""Scopes, incomplete ones included: ``sexton.operators.access.policy.scope`` says what these lack. A value that does
not match is not echoed."""
ScopeText = Annotated[str, Field(pattern=SCOPE)]
Password = Annotated[str, Field(max_length=MAX_PASSWORD, repr=False)]
Days = Annotated[int, Field(strict=True, ge=1, le=366)]


class Credentials(Body):
    """A user and the password. ``scope``: at most the user's own scope, which is the default."""

    user: Annotated[str, Field(max_length=200, repr=False, description="not echoed: it may hold a password by mistake")]
    password: Password
    scope: ScopeText | None = None
    ttl_seconds: Annotated[int, Field(strict=True, ge=MIN_TTL_SECONDS, le=MAX_TTL_SECONDS)] | None = Field(
        None, description=f"from now; {TTL_SECONDS} by default"
    )


class IssuedToken(Message):
    """A token that was issued for a password. It is returned once; Sexton stores only its hash."""

    token: str = Field(repr=False)
    id: str
    scope: str
    expires_at: int


class ShownToken(Message):
    """A token without its secret. ``user``: whose login issued it; empty: none, it was created for a program."""

    token: str
    scope: str
    note: str
    user: str
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None
    revoked_by: str
    last_used_at: int | None


class TokenList(Message):
    """Tokens, the newest first; of users' tokens only valid ones."""

    tokens: tuple[ShownToken, ...]


class NewToken(Body):
    """A token to create."""

    scope: ScopeText
    days: Days = 90
    note: Annotated[str, Field(max_length=500, pattern=PRINTABLE, description="its user and its purpose")] = ""


class CreatedToken(Message):
    """A new token. ``secret``: what its holder sends; it is never shown again."""

    token: ShownToken
    secret: str = Field(repr=False)


class TokenRenewal(Body):
    """For how many days from now a token is valid."""

    days: Days = 90


class ShownUser(Message):
    """A user without the password. ``changed_at``: when the password was last set."""

    user: str
    scope: str
    created_at: int
    created_by: str
    changed_at: int
    removed_at: int | None
    removed_by: str


class UserList(Message):
    """Every user in the order of their names, removed ones included."""

    users: tuple[ShownUser, ...]


class NewUser(Body):
    """A user to add."""

    user: Annotated[str, Field(max_length=200)]
    scope: ScopeText
    password: Password


class NewPassword(Body):
    """Another password of a user."""

    password: Password
