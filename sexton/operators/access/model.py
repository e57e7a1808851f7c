"""Tokens, what each allows, and calls as they are remembered. Instants in ms since 1970."""

from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.message import Message

ASKED, DONE = "asked", "ok"


class Grant(StrEnum):
    """What a token is for. Each of the first three includes the one before it."""

    READ = "read"
    """Every question."""
    OPERATE = "operate"
    """Stop and start, plans, the watermark; register, renew and finish for any job."""
    ADMIN = "admin"
    """Release what others protect."""
    SYNC = "sync"
    """``sync:JOB``: the protections of JOB and of JOB:RUN, and what it needs to know of them."""
    NODE = "node"
    """``node:ID``: what the node of that name reports and asks."""


class TokenScope(NamedTuple):
    """A grant, and for ``sync`` and ``node`` whose."""

    grant: Grant
    of: str = ""

    def __str__(self) -> str:
        return f"{self.grant}:{self.of}" if self.of else str(self.grant)


class Token(Message):
    """A token without its secret, which nobody keeps."""

    id: str
    scope: TokenScope
    note: str = ""
    created_at: int = 0
    created_by: str = ""
    expires_at: int = 0
    revoked_at: int | None = None
    revoked_by: str = ""
    of_user: str | None = None
    """Whose password it was given for; None: made at the command line."""

    @property
    def name(self) -> str:
        """Who it is, where calls are remembered: a user's token is forgotten long before."""
        whose = "" if self.of_user is None else f"user {self.of_user}, "
        return f"{whose}token {self.id} ({self.scope})"


class User(Message):
    """A user without the password, which nobody keeps."""

    name: str
    scope: TokenScope
    created_at: int = 0
    created_by: str = ""
    changed_at: int = 0
    """When the password was last set."""
    removed_at: int | None = None
    removed_by: str = ""


class CallRecord(Message):
    """One call that changed something, or was refused: who, what, when, from where."""

    at: int = 0
    who: str
    source: str
    """The caller's address, or ``cli@HOST``."""
    action: str
    instance: str = ""
    subject: str = ""
    """What it was about: a job, a plan's number."""
    outcome: str = ASKED
    """``ok``, the code of the refusal, or ``asked``: nobody knows how it ended."""
    reason: str = ""
