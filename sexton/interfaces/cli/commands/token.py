"""`sexton token`: who may use the API, and for what."""

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, opened, recorded
from sexton.interfaces.cli.output import dump, show, stamp, when

if TYPE_CHECKING:
    from sexton.operators.access.model import Token

app = typer.Typer(help="Tokens of the API.", no_args_is_help=True)
SOON_MS = 14 * 86_400_000
"""A token that ends so soon is marked in the list."""


@app.command("create")
def create(
    scope: Annotated[str, typer.Option(help="read, operate, admin, sync:JOB or node:ID.", metavar="SCOPE")],
    days: Annotated[int, typer.Option(help="For how long it is valid.", min=1, max=3_650)] = 90,
    note: Annotated[str, typer.Option(help="Who has it, and what for.")] = "",
    as_json: Json = False,
) -> None:
    """Print a new token. It is shown once; only its hash is kept.

    read asks; operate also stops, starts, plans, applies and registers; admin also releases what others protect.
    sync:JOB is for the protections of JOB and its runs, JOB:RUN.

    Example: sexton token create --scope sync:copy --days 30 --note 'nightly copy to Lisbon'
    """
    from sexton.operators.access import policy
    from sexton.operators.access.sql.tokens import TokenStore
    from sexton.operators.controls.store import whoami

    wanted = policy.scope(scope)
    with opened() as (_, db), recorded(db, "token create", subject=str(wanted), reason=note):
        made, secret = TokenStore(db).create(wanted, days, whoami(), note)
    if as_json:
        dump(_shown(made) | {"token": secret})
        return
    typer.echo(secret)
    typer.echo(f"token {made.id}, scope {made.scope}, until {when(made.expires_at)}; it is not shown again", err=True)
    typer.echo(f"to end it sooner: sexton token revoke {made.id}", err=True)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Print every token, without its secret, the newest first.

    Example: sexton token list
    """
    from sexton.operators.access.sql.tokens import TokenStore

    with opened() as (_, db):
        found = TokenStore(db).all()
        with db.read() as c:
            now = db.now(c)
    if as_json:
        dump([_shown(t) for t in found])
        return
    columns = ("token", "scope", "created (UTC)", "by", "until (UTC)", "", "note")
    rows = [
        (t.id, t.scope, stamp(t.created_at), t.created_by, stamp(t.expires_at), _state(t, now), t.note) for t in found
    ]
    show("" if rows else "there is no token; make one: sexton token create --scope SCOPE", columns, rows)


@app.command("revoke")
def revoke(token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, the part after sxt_.")]) -> None:
    """End a token at once. Repeatable.

    Example: sexton token revoke 3f9c0a1b2c4d
    """
    from sexton.operators.access.sql.tokens import TokenStore
    from sexton.operators.controls.store import whoami

    with opened() as (_, db), recorded(db, "token revoke", subject=token):
        ended = TokenStore(db).revoke(token, whoami())
    typer.echo(f"token {ended.id}, scope {ended.scope}, is revoked")


def _shown(token: "Token") -> dict[str, object]:
    return token.model_dump(mode="json") | {"scope": str(token.scope)}


def _state(token: "Token", now: int) -> str:
    if token.revoked_at is not None:
        return f"revoked by {token.revoked_by}"
    if now >= token.expires_at:
        return "over"
    left = dt.timedelta(milliseconds=token.expires_at - now)
    return f"{left.days} days left" if token.expires_at - now < SOON_MS else ""
