"""Tokens, as administrators see them. Instants: ms since 1970."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message
from sexton.protocol.body import PRINTABLE, Body

SCOPE = r"^(read|owner|operate|admin|(node|sync):[A-Za-z0-9][A-Za-z0-9._/-]{0,127})(@([a-z0-9][a-z0-9_-]{0,62}|\*))?$"
"""Scopes, incomplete ones included: ``sexton.operators.access.policy.scope`` says what these lack. A value that does
not match is not echoed."""
ScopeText = Annotated[str, Field(pattern=SCOPE)]
Days = Annotated[int, Field(strict=True, ge=1, le=366)]


class ShownToken(Message):
    """A token without its secret."""

    token: str
    scope: str
    note: str
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None
    revoked_by: str
    last_used_at: int | None


class TokenList(Message):
    """Tokens, the newest first."""

    items: tuple[ShownToken, ...]
    more: bool = False


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
