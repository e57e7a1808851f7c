"""Exchange a password for a token."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message
from sexton.operators.access.credentials import MAX_PASSWORD, MAX_TTL_SECONDS, MIN_TTL_SECONDS, TTL_SECONDS
from sexton.protocol.body import Body

MAX_LOGIN_BYTES = 4 << 10
SCOPE = r"^(read|owner|operate|admin|(node|sync):[A-Za-z0-9][A-Za-z0-9._/-]{0,127})(@([a-z0-9][a-z0-9_-]{0,62}|\*))?$"
"""Scopes, incomplete ones included: ``sexton.operators.access.policy.scope`` says what these lack. A value that does
not match is not echoed."""


class Credentials(Body):
    """A user and the password. ``scope``: at most the user's own scope, which is the default."""

    user: Annotated[str, Field(max_length=200, repr=False, description="not echoed: it may hold a password by mistake")]
    password: Annotated[str, Field(max_length=MAX_PASSWORD, repr=False)]
    scope: Annotated[str, Field(pattern=SCOPE)] | None = None
    ttl_seconds: Annotated[int, Field(strict=True, ge=MIN_TTL_SECONDS, le=MAX_TTL_SECONDS)] | None = Field(
        None, description=f"from now; {TTL_SECONDS} by default"
    )


class IssuedToken(Message):
    """A token that was issued for a password. It is returned once; Sexton stores only its hash."""

    token: str = Field(repr=False)
    id: str
    scope: str
    expires_at: int
