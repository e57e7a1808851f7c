"""Tokens and scopes as values, and refusals because of the caller. Instants are in ms since 1970."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from sexton.kernel.errors import NotFound, SextonError
from sexton.kernel.message import Message

EVERY_INSTANCE = "*"
"""The instance of a scope that covers all instances. A request passes it if it belongs to no single instance: figures
and stops of the whole deployment. Only a scope that covers all permits it."""

ANY_NODE = "*"
"""The node of a request for which the token of any node of the instance is accepted; no node has this name."""

UNKNOWN_INSTANCE = ""
"""The instance of a plan, a check or a topic that is unknown. Only a scope of every instance covers it, so a token of
one instance receives the same refusal as for what belongs to another one."""


class Grant(StrEnum):
    """What a token permits in its instance. Each of read, owner, operate and admin includes the one before it."""

    READ = "read"
    """Read everything."""
    OWNER = "owner"
    """Send what the owner of the instance reports: maps, records, placements, drops and the watermark."""
    COMMIT = "commit"
    """Admit commits, and end them: what a gate before a catalog sends. ``owner`` permits it, too."""
    OPERATE = "operate"
    """Stop, start, plan, apply; register, renew and finish protections of any job."""
    ADMIN = "admin"
    """Release protections of other jobs, in every instance."""
    SYNC = "sync"
    """``sync:JOB``: read and change the protections of JOB and of JOB:RUN."""
    NODE = "node"
    """``node:ID``: the reports and queries of the node with this name."""
    UNREADABLE = "unreadable"
    """Nothing. Only of a stored scope that this version cannot read; no text names it."""


class TokenScope(NamedTuple):
    """A grant in one instance, or in every one.

    ``of`` is the job or the node for ``sync`` and ``node``, and the stored text for ``unreadable``.
    """

    grant: Grant
    of: str
    instance: str

    def __str__(self) -> str:
        if self.grant is Grant.UNREADABLE:
            return f"{self.of!r} cannot be read; revoke it"
        name = f"{self.grant}:{self.of}" if self.of else str(self.grant)
        is_complete = self.instance == EVERY_INSTANCE and self.grant in (Grant.READ, Grant.ADMIN)
        return name if is_complete else f"{name}@{self.instance}"


class CallerIdentity(NamedTuple):
    """The sender of a request, and its scopes; each scope alone permits what it names."""

    name: str
    """In the log of calls."""
    scopes: tuple[TokenScope, ...]


def scopes_text(scopes: Iterable[TokenScope]) -> str:
    """Return scopes as people read them."""
    return ", ".join(map(str, scopes))


class Token(Message):
    """A token without its secret, which Sexton does not store."""

    id: str = Field(alias="token")
    scope: TokenScope
    note: str = ""
    created_at: int = 0
    created_by: str = ""
    expires_at: int = 0
    revoked_at: int | None = None
    revoked_by: str = ""
    last_used_at: int | None = None
    """When it was last used, to about a minute; None: never."""

    @property
    def name(self) -> str:
        """The caller in the call log."""
        return f"token {self.id} ({self.scope})"

    @property
    def identity(self) -> CallerIdentity:
        """The caller that sends the token."""
        return CallerIdentity(self.name, (self.scope,))


class OidcSettings(Message):
    """Which JWTs are accepted. ``scopes``: value of the claim → scopes of Sexton."""

    issuer: str = ""
    """Empty: none is."""
    audience: str = ""
    jwks: str = ""
    """URL of the issuer's public keys."""
    claim: str = ""
    scopes: Mapping[str, Sequence[str]] = Field(default_factory=dict)
    leeway_seconds: int = 30


class Unauthenticated(SextonError):
    """The request has no token, or one that is unknown or no longer valid."""

    def __init__(self, text: str, caller: str = "") -> None:
        """Store the message; ``caller``: the name of the ended token that was sent; empty: an unknown one."""
        super().__init__(text)
        self.caller = caller


class Forbidden(SextonError):
    """The token is valid, but does not permit this request."""


class UnknownToken(NotFound):
    """No token has that id."""


class IssuerAway(SextonError):
    """The keys of the issuer of JWTs are not known now."""

    passes = True
