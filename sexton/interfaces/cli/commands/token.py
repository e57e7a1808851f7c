"""`sexton token`: manage who may use the API, and for what."""

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.json_output import emit_list, emit_object, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc, utc_column

if TYPE_CHECKING:
    from sexton.operators.access.model import Token

app = typer.Typer(help="Tokens of the API.", no_args_is_help=True)
Days = Annotated[int, typer.Option(help="How many days it is valid, 1 to 366.")]
Id = Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, the part after sxt_.")]


@app.command("create")
def create(
    scope: Annotated[
        str, typer.Option(help="read, read@I, owner@I, operate@I, admin, sync:JOB@I or node:ID@I.", metavar="SCOPE")
    ],
    days: Days = 90,
    note: Annotated[str, typer.Option(help="Its user and its purpose.")] = "",
) -> None:
    """Print a new token. It is shown once; only its hash is stored.

    I is an instance, or * for every one (not for a job). Scope read allows queries; owner also allows maps, records,
    placements, drops and the watermark; operate also allows stop, start, plan, apply and register; admin also allows
    releasing the protections of others. sync:JOB@I allows the protections of JOB and its runs, JOB:RUN; node:ID@I
    allows the reports of node ID.

    Example: sexton token create --scope sync:copy@shop --days 30 --note 'nightly copy to Lisbon'
    """
    from sexton.operators.access import policy
    from sexton.operators.controls.store import whoami

    checked_scope = policy.scope(scope)
    with open_database() as service, log_call(service, "token create", subject=str(checked_scope), reason=note):
        created, secret = service.stores.tokens.create(checked_scope, days, whoami(), note)
    if wants_json():
        emit_object(_as_json(created) | {"secret": secret})
        return
    typer.echo(secret)
    end = utc(created.expires_at)
    typer.echo(f"token {created.id}, scope {created.scope}, until {end}; it is not shown again", err=True)
    typer.echo(f"to end it sooner: sexton token revoke {created.id}", err=True)


@app.command("list")
def list_() -> None:
    """Print every token, without its secret, the newest first.

    Example: sexton token list
    """
    with open_database() as service:
        tokens = service.stores.tokens.all()
        with service.db.read() as c:
            now = service.db.now(c)
    if wants_json():
        emit_list([_as_json(t) for t in tokens])
        return
    columns = ("token", "scope", "created (UTC)", "by", "until (UTC)", "used (UTC)", "", "note")
    rows = [_row(token, now) for token in tokens]
    show_table("" if rows else "there is no token; make one: sexton token create --scope SCOPE", columns, rows)


@app.command("renew")
def renew(token: Id, days: Days = 90) -> None:
    """Let a token end this many days from now. Its secret stays, so programs that use it need no change.

    Example: sexton token renew 3f9c0a1b2c4d --days 90
    """
    from sexton.operators.access import policy

    token = policy.token_id(token)
    with open_database() as service, log_call(service, "token renew", subject=token, reason=f"for {days} days"):
        renewed = service.stores.tokens.renew(token, days)
    typer.echo(f"token {renewed.id}, scope {renewed.scope}, is valid until {utc(renewed.expires_at)}")


@app.command("revoke")
def revoke(token: Id) -> None:
    """Revoke a token now. Repeatable.

    Example: sexton token revoke 3f9c0a1b2c4d
    """
    from sexton.operators.access import policy
    from sexton.operators.controls.store import whoami

    token = policy.token_id(token)
    with open_database() as service, log_call(service, "token revoke", subject=token):
        revoked = service.stores.tokens.revoke(token, whoami())
    typer.echo(f"token {revoked.id}, scope {revoked.scope}, is revoked")


def _as_json(token: "Token") -> dict[str, object]:
    return stable(token) | {"scope": str(token.scope)}


def _row(token: "Token", now: int) -> tuple[object, ...]:
    created, until = utc_column(token.created_at), utc_column(token.expires_at)
    used = "never" if token.last_used_at is None else utc_column(token.last_used_at)
    return token.id, token.scope, created, token.created_by, until, used, _state(token, now), token.note


def _state(token: "Token", now: int) -> str:
    from sexton.operators.access.policy import EXPIRES_SOON_MS

    if token.revoked_at is not None:
        return f"revoked by {token.revoked_by}"
    if now >= token.expires_at:
        return "expired"
    left = dt.timedelta(milliseconds=token.expires_at - now)
    return f"{left.days} days left" if token.expires_at - now < EXPIRES_SOON_MS else ""
