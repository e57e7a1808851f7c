"""`sexton user`: who may ask the API for short-lived tokens with a password."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, recorded
from sexton.interfaces.cli.output import dump, show, stamp

if TYPE_CHECKING:
    from sexton.operators.access.model import User

app = typer.Typer(help="Users of the API: a password for short-lived tokens.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and . _ @ -")]
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input, one line.")]


@app.command("add")
def add(
    name: Name,
    scope: Annotated[str, typer.Option(help="read, operate, admin, sync:JOB or node:ID.", metavar="SCOPE")],
    password_stdin: Stdin = False,
) -> None:
    """Let somebody ask for tokens with a password, which is asked for twice. There is no default password.

    A token that POST /v1/token gives lasts up to an hour and may do no more than SCOPE allows.

    Example: sexton user add ada --scope operate
    """
    from sexton.operators.access import credentials, policy
    from sexton.operators.access.sql.users import UserStore
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    wanted = policy.scope(scope)
    with opened() as (_, db):
        password = _password(name, from_stdin=password_stdin)
        with recorded(db, "user add", subject=name, reason=f"scope {wanted}"):
            UserStore(db).add(name, password, wanted, whoami())
    typer.echo(f"user {name} may ask for tokens of scope {wanted}: POST /v1/token")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Print every user, those that were removed too.

    Example: sexton user list
    """
    from sexton.operators.access.sql.users import UserStore

    with opened() as (_, db):
        found = UserStore(db).all()
    if as_json:
        dump([_shown(u) for u in found])
        return
    columns = ("user", "scope", "created (UTC)", "by", "password of (UTC)", "")
    rows = [(u.name, u.scope, stamp(u.created_at), u.created_by, stamp(u.changed_at), _state(u)) for u in found]
    show("" if rows else "there is no user; make one: sexton user add NAME --scope SCOPE", columns, rows)


@app.command("password")
def password(name: Name, password_stdin: Stdin = False) -> None:
    """Give a user another password, which ends the tokens that were given for the old one.

    Example: sexton user password ada
    """
    from sexton.operators.access import credentials
    from sexton.operators.access.sql.users import UserStore
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    with opened() as (_, db):
        given = _password(name, from_stdin=password_stdin)
        with recorded(db, "user password", subject=name):
            UserStore(db).change(name, given, whoami())
    typer.echo(f"user {name} has another password; the tokens given for the old one have ended")


@app.command("remove")
def remove(name: Name) -> None:
    """End a user, and every token that was given for the password, at once.

    Example: sexton user remove ada
    """
    from sexton.operators.access import credentials
    from sexton.operators.access.sql.users import UserStore
    from sexton.operators.controls.store import whoami

    credentials.check_name(name)
    with opened() as (_, db), recorded(db, "user remove", subject=name):
        UserStore(db).remove(name, whoami())
    typer.echo(f"user {name} is removed, and so is every token of that user")


def _password(name: str, *, from_stdin: bool) -> str:
    """Return a password that will do, from a terminal that shows nothing or the first line of standard input."""
    from sexton.operators.access import credentials

    if from_stdin:
        given = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        given = typer.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise WrongUsage("nobody can type a password here; send it with --password-stdin")
    credentials.check_password(name, given)
    return given


def _shown(user: "User") -> dict[str, object]:
    return user.model_dump(mode="json") | {"scope": str(user.scope)}


def _state(user: "User") -> str:
    return "" if user.removed_at is None else f"removed by {user.removed_by}, {stamp(user.removed_at)}"
