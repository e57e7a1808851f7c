"""Who may use the API and the console, and for what."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from sexton.kernel.message import Message, Page
from sexton.kernel.printable import PRINTABLE
from sexton.operations.fields import Flag, Whole
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access import policy
from sexton.operators.access.model import Grant, Token

SCOPE = r"^(read|owner|operate|admin|(node|sync):[A-Za-z0-9][A-Za-z0-9._/-]{0,127})(@([a-z0-9][a-z0-9_-]{0,62}|\*))?$"
"""Scopes, incomplete ones included: ``policy.scope`` says what these lack. Another value is not echoed."""
Id = Annotated[
    str,
    Flag(shown="TOKEN"),
    StringConstraints(max_length=200),
    AfterValidator(policy.token_id),
    Field(description="Its id, the part after sxt_."),
]
"""Of a whole token only the id is used and logged."""
Days = Annotated[Whole, Field(ge=1, le=366, description="How many days it is valid.")]
Scope = Annotated[
    str,
    StringConstraints(pattern=SCOPE),
    AfterValidator(lambda text: str(policy.scope(text))),
    Field(description="One of read, read@I, owner@I, commit@I, operate@I, admin, sync:JOB@I or node:ID@I."),
]
Note = Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE), Field(description="Its user and purpose.")]


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


class CreatedToken(Message):
    """A new token. ``secret``: what its holder sends; it is never shown again."""

    token: ShownToken
    secret: str = Field(repr=False)


@operation("token create", "POST /v1/tokens", Grant.ADMIN, Logged("{scope} {note}", once=True))
def create_token(call: Call, *, scope: Scope, days: Days = 90, note: Note = "") -> CreatedToken:
    """Make a new token. It is shown once; only its hash is stored.

    I is an instance, or * for every one (not for a job). Scope read allows queries; owner also allows maps, records,
    placements, drops and the watermark; operate also allows stop, start, plan, apply and register; admin also allows
    releasing the protections of others. commit@I allows only to admit commits; sync:JOB@I only the protections of JOB
    and its runs, JOB:RUN; node:ID@I only the reports of node ID.

    Example: sexton token create --scope sync:copy@shop --days 30 --note 'nightly copy to Lisbon'
    """
    created, secret = call.stores.tokens.create(policy.scope(scope), days, call.by, note)
    return CreatedToken(token=shown(created), secret=secret)


@operation("token list", "GET /v1/tokens", Grant.ADMIN, READS)
def tokens(call: Call) -> Page[ShownToken]:
    """Return every token, without its secret, the newest first.

    Example: sexton token list
    """
    return Page[ShownToken](items=tuple(map(shown, call.stores.tokens.all())))


@operation("token renew", "POST /v1/tokens/{token}/renew", Grant.ADMIN, Logged("{token} for {days} days"))
def renew_token(call: Call, token: Id, *, days: Days = 90) -> ShownToken:
    """Let a token end this many days from now. Its secret stays, so programs that use it need no change.

    Example: sexton token renew 3f9c0a1b2c4d --days 90
    """
    return shown(call.stores.tokens.renew(token, days))


@operation("token revoke", "DELETE /v1/tokens/{token}", Grant.ADMIN, Logged("{token}"))
def revoke_token(call: Call, token: Id) -> ShownToken:
    """Revoke a token now: its next request is refused. Repeatable.

    Example: sexton token revoke 3f9c0a1b2c4d
    """
    return shown(call.stores.tokens.revoke(token, call.by))


def shown(token: Token) -> ShownToken:
    """Return a token as its operations show it."""
    return ShownToken(token=token.id, scope=str(token.scope), **token.model_dump(exclude={"id", "scope"}))
