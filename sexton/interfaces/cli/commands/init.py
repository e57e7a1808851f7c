"""`sexton init` creates the schema in an owner's database; `sexton contract test` tests that it keeps the contract."""

from contextlib import closing
from typing import Annotated

import typer

from sexton.interfaces.cli.operations import finish


def init(
    print_sql: Annotated[bool, typer.Option("--print-sql", help="Print the schema instead of creating it.")] = False,
    grant_to: Annotated[str, typer.Option(help="PostgreSQL role of an owner, gets the contract's grants.")] = "",
) -> None:
    """Create or upgrade Sexton's tables. Safe to repeat.

    If no deployment id is set, print a new one. If Sexton's role is a superuser, print the SQL for a role of its own.
    A role can use the contract for no instance until: sexton instance grant INSTANCE ROLE

    Example: sexton init --grant-to shop_app
    """
    import secrets

    from config.settings import load
    from sexton.database import roles, schema
    from sexton.database.engine import Database
    from sexton.interfaces.cli.context import cli_call
    from sexton.operators.call_log import DONE, append

    settings = load()
    if print_sql:
        typer.echo(schema.sql(settings.deployment))
        if grant_to:
            typer.echo(roles.grants(grant_to))
        return
    url = settings.require_database_url()
    schema.take(url)
    deployment = settings.deployment or schema.belongs_to(url)
    if settings.deployment == "" and deployment:
        raise schema.SchemaError(
            f"this database belongs to deployment {deployment}; to use that deployment, set "
            f"SEXTON_DEPLOYMENT={deployment}; a copy of the database needs a new id and new vaults"
        )
    deployment = deployment or f"sexton-{secrets.token_hex(4)}"
    schema.init(url, deployment)
    typer.echo(schema.status(url, deployment))
    with closing(Database.open(url)) as db, db.write() as c:
        append(db, c, cli_call("init", subject=f"grant to {grant_to}" if grant_to else "", outcome=DONE))
        access = roles.read_access(c)
    if access.is_superuser:
        typer.echo(f"warning: role {access.role} is a superuser; run this, and log in as sexton_svc instead:", err=True)
        typer.echo(roles.OWN_ROLE, err=True)
    if not settings.deployment:
        typer.echo("this is a new deployment; set this in the environment of every sexton process:")
        typer.echo(f"SEXTON_DEPLOYMENT={deployment}")
    if grant_to:
        roles.grant(url, grant_to)
        typer.echo(f"role {grant_to} may use the contract, for each instance that you grant to it:")
        typer.echo(f"sexton instance add INSTANCE; sexton instance grant INSTANCE {grant_to}")
    typer.echo("when a worker is running, let rounds start automatically: sexton schedules apply")


def race_test(
    dsn: Annotated[str, typer.Option(help="Database URL; default: the setting database_url.")] = "",
    marks: Annotated[int, typer.Option(min=100, max=200_000, help="Number of marks.")] = 2_000,
    threads: Annotated[int, typer.Option(min=1, max=10, help="Number of committers, and of undroppers.")] = 4,
) -> None:
    """Race committers and undroppers against a claimer.

    No mark may be both committed and claimed. The test uses an instance of its own and deletes no file. Exit code 1:
    the contract was broken.

    Example: sexton contract test --dsn postgresql://postgres@127.0.0.1/shop
    """
    from config.settings import load
    from sexton.database import schema
    from sexton.database.engine import Database
    from sexton.interfaces.selftest import run

    url = dsn or load().require_database_url()
    if not schema.belongs_to(url):
        raise schema.SchemaError("this database has no Sexton schema; run: sexton init")
    with closing(Database.open(url)) as db:
        race = run(db, marks=marks, threads=threads)
    finish("contract test", race, {})
    if not race.proved:
        typer.echo("one side won every mark, so this run proves nothing; try again with more --marks", err=True)
    if not (race.clean and race.proved):
        raise typer.Exit(1)


COMMANDS = {"init": init, "contract test": race_test}
