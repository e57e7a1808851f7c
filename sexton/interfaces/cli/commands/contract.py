"""`sexton contract`: test whether the owner's database keeps the contract."""

from contextlib import closing
from typing import Annotated

import typer

from sexton.interfaces.cli.operations import finish


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
    from sexton.interfaces.selftest.race import run

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


COMMANDS = {"contract test": race_test}
