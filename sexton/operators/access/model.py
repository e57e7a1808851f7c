"""Tokens, users, scopes, and the records of calls, as values. Instants are in ms since 1970."""

from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.message import Message


class Grant(StrEnum):
    """What a token permits. Each of the first three includes the one before it."""

    READ = "read"
    """Read everything."""
    OPERATE = "operate"
    """Stop, start, plan, set the watermark; register, renew and finish protections of any job."""
    ADMIN = "admin"
    """Release protections of other jobs."""
    SYNC = "sync"
    """``sync:JOB``: read and change the protections of JOB and of JOB:RUN."""
    NODE = "node"
    """``node:ID``: the reports and queries of the node with this name."""


class TokenScope(NamedTuple):
    """A grant; for ``sync`` and ``node``, ``of`` is the job or the node."""

    grant: Grant
    of: str = ""

    def __str__(self) -> str:
        return f"{self.grant}:{self.of}" if self.of else str(self.grant)


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
