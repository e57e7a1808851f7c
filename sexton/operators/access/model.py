"""Tokens, users, scopes, and the records of calls, as values. Instants are in ms since 1970."""

from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.message import Message

EVERY_INSTANCE = "*"
"""The instance of a scope that covers all instances. A request passes it if it belongs to no single instance: figures
and stops of the whole deployment, and topics, whose rows name no instance. Only a scope that covers all permits it."""


class Grant(StrEnum):
    """What a token permits in its instance. Each of the first four includes the one before it."""

    READ = "read"
    """Read everything."""
    OWNER = "owner"
    """Send what the owner of the instance reports: maps, records, placements, drops and the watermark."""
    OPERATE = "operate"
    """Stop, start, plan, apply; register, renew and finish protections of any job."""
    ADMIN = "admin"
    """Release protections of other jobs, in every instance."""
    SYNC = "sync"
    """``sync:JOB``: read and change the protections of JOB and of JOB:RUN."""
    NODE = "node"
    """``node:ID``: the reports and queries of the node with this name."""


class TokenScope(NamedTuple):
    """A grant in one instance, or in every one; for ``sync`` and ``node``, ``of`` is the job or the node."""

    grant: Grant
    of: str
    instance: str

    def __str__(self) -> str:
        name = f"{self.grant}:{self.of}" if self.of else str(self.grant)
        is_complete = self.instance == EVERY_INSTANCE and self.grant in (Grant.READ, Grant.ADMIN)
        return name if is_complete else f"{name}@{self.instance}"


class Token(Message):
    """A token without its secret, which Sexton does not store."""

    id: str
    scope: TokenScope
    note: str = ""
    created_at: int = 0
    created_by: str = ""
    expires_at: int = 0
    revoked_at: int | None = None
    revoked_by: str = ""
    of_user: str | None = None
    """The user whose login issued the token; None: created at the command line."""

    @property
    def name(self) -> str:
        """The caller in the call log. It names the user, because a user's token is deleted long before the log is."""
        user = "" if self.of_user is None else f"user {self.of_user}, "
        return f"{user}token {self.id} ({self.scope})"


class User(Message):
    """A user without the password, which Sexton does not store."""

    name: str
    scope: TokenScope
    created_at: int = 0
    created_by: str = ""
    changed_at: int = 0
    """When the password was last set."""
    removed_at: int | None = None
    removed_by: str = ""
