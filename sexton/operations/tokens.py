"""Who may use the API and the console, and for what."""

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, StringConstraints

from sexton.operations.registry import Recording, operation
from sexton.operators.access import policy
from sexton.operators.access.model import Grant, Token
from sexton.protocol.access import SCOPE, CreatedToken, ShownToken, TokenList
from sexton.protocol.body import PRINTABLE

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService

Id = Annotated[
    str,
    StringConstraints(max_length=200),
    AfterValidator(policy.token_id),
    Field(description="Its id, the part after sxt_."),
]
"""Of a whole token only the id is used and logged."""
Days = Annotated[int, Field(ge=1, le=366, description="How many days it is valid.")]
Scope = Annotated[
    str,
    StringConstraints(pattern=SCOPE),
    AfterValidator(lambda text: str(policy.scope(text))),
    Field(description="read, read@I, owner@I, operate@I, admin, sync:JOB@I or node:ID@I."),
]
Note = Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE), Field(description="Its user and purpose.")]


@operation("token create", "POST /v1/tokens", Grant.ADMIN, Recording("{scope}", "{note}"))
def create_token(
    deployment: "OperatorService", *, scope: Scope, days: Days = 90, note: Note = "", by: str
) -> CreatedToken:
    """Make a new token. It is shown once; only its hash is stored.

    I is an instance, or * for every one (not for a job). Scope read allows queries; owner also allows maps, records,
    placements, drops and the watermark; operate also allows stop, start, plan, apply and register; admin also allows
    releasing the protections of others. sync:JOB@I allows the protections of JOB and its runs, JOB:RUN; node:ID@I
    allows the reports of node ID.

    Example: sexton token create --scope sync:copy@shop --days 30 --note 'nightly copy to Lisbon'
    """
    created, secret = deployment.stores.tokens.create(policy.scope(scope), days, by, note)
    return CreatedToken(token=_shown(created), secret=secret)


@operation("token list", "GET /v1/tokens", Grant.ADMIN)
def tokens(deployment: "OperatorService") -> TokenList:
    """Return every token, without its secret, the newest first.

    Example: sexton token list
    """
    return TokenList(items=tuple(map(_shown, deployment.stores.tokens.all())))


@operation("token renew", "POST /v1/tokens/{token}/renew", Grant.ADMIN, Recording("{token}", "for {days} days"))
def renew_token(deployment: "OperatorService", token: Id, *, days: Days = 90) -> ShownToken:
    """Let a token end this many days from now. Its secret stays, so programs that use it need no change.

    Example: sexton token renew 3f9c0a1b2c4d --days 90
    """
    return _shown(deployment.stores.tokens.renew(token, days))


@operation("token revoke", "DELETE /v1/tokens/{token}", Grant.ADMIN, Recording("{token}"))
def revoke_token(deployment: "OperatorService", token: Id, *, by: str) -> ShownToken:
    """Revoke a token now: its next request is refused. Repeatable.

    Example: sexton token revoke 3f9c0a1b2c4d
    """
    return _shown(deployment.stores.tokens.revoke(token, by))


def _shown(token: Token) -> ShownToken:
    return ShownToken(token=token.id, scope=str(token.scope), **token.model_dump(exclude={"id", "scope"}))
