"""`sexton user`: manage the users who get short-lived API tokens for a password."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, log_call, open_database
from sexton.interfaces.cli.json_output import emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc_column

if TYPE_CHECKING:
    from sexton.operators.access.model import User

app = typer.Typer(help="Users of the API: they get short-lived tokens for a password.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and . _ @ -")]
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input, one line.")]


@app.command("add")
def add(
    name: Name,
    scope: Annotated[
        str, typer.Option(help="read, read@I, owner@I, operate@I, admin, sync:JOB@I or node:ID@I.", metavar="SCOPE")
    ],
    password_stdin: Stdin = False,
) -> None:
    """Add a user, who may request tokens with a password. The command asks for it twice; there is no default password.

    POST /v1/token returns a token that lasts up to an hour and allows no more than SCOPE; a user of scope admin may
    request tokens of jobs and nodes.

    Example: sexton user add ada --scope operate@shop
    """
    from sexton.operators.access import credentials, policy
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    checked_scope = policy.scope(scope)
    with open_database() as service:
        password = _password(name, from_stdin=password_stdin)
        with log_call(service, "user add", subject=name, reason=f"scope {checked_scope}"):
            service.stores.users.add(name, password, checked_scope, whoami())
    typer.echo(f"user {name} may request tokens of scope {checked_scope}: POST /v1/token")


@app.command("list")
def list_() -> None:
    """Print every user, including removed ones.

    Example: sexton user list
    """
    with open_database() as service:
        users = service.stores.users.all()
    if wants_json():
        emit_list([_as_json(u) for u in users])
        return
    columns = ("user", "scope", "created (UTC)", "by", "password of (UTC)", "")
    rows = [
        (u.name, u.scope, utc_column(u.created_at), u.created_by, utc_column(u.changed_at), _state(u)) for u in users
    ]
    show_table("" if rows else "there is no user; make one: sexton user add NAME --scope SCOPE", columns, rows)


@app.command("password")
def password(name: Name, password_stdin: Stdin = False) -> None:
    """Set another password for a user.

    Tokens issued for the old password end.

    Example: sexton user password ada
    """
    from sexton.operators.access import credentials
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    with open_database() as service:
        new_password = _password(name, from_stdin=password_stdin)
        with log_call(service, "user password", subject=name):
            service.stores.users.change(name, new_password, whoami())
    typer.echo(f"user {name} has another password; tokens issued for the old one have ended")


@app.command("remove")
def remove(name: Name) -> None:
    """Remove a user now.

    Every token issued for the password is revoked.

    Example: sexton user remove ada
    """
    from sexton.operators.access import credentials
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    with open_database() as service, log_call(service, "user remove", subject=name):
        service.stores.users.remove(name, whoami())
    typer.echo(f"user {name} is removed, and so is every token of that user")


def _password(name: str, *, from_stdin: bool) -> str:
    """Return an acceptable password, from a terminal prompt without echo or the first line of standard input."""
    from sexton.operators.access import credentials

    if from_stdin:
        text = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        text = typer.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise WrongUsage("standard input is no terminal; send the password with --password-stdin")
    credentials.check_password(name, text)
    return text


def _as_json(user: "User") -> dict[str, object]:
    return stable(user) | {"scope": str(user.scope)}


def _state(user: "User") -> str:
    return "" if user.removed_at is None else f"removed by {user.removed_by}, {utc_column(user.removed_at)}"
