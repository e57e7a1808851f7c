"""A DuckLake as an owner: its files, deleted by Sexton instead of its own cleaners."""

import re
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.operations import finish
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.owners.ducklake.model import Lake
    from sexton.runtime.deployment import Deployment
    from sexton.storage.model import VaultSpec

Instance = Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance: this lake.")]
LakeUrl = Annotated[
    str, typer.Option(help="URL with the login that owns the lake's tables; default: the setting database_url.")
]
PrintSql = Annotated[bool, typer.Option("--print-sql", help="Print the lake's statements; run none of them.")]


class LakeStatus(Message):
    """What `sexton ducklake status` shows."""

    instance: str
    attached: bool
    version: str
    data_path: str
    problems: tuple[str, ...]


def attach(
    name: Instance,
    schema: Annotated[str, typer.Option(help="Schema of the lake's tables.")] = "public",
    vault: Annotated[str, typer.Option(help="Name of the vault that the data path becomes.")] = "lake",
    lake_url: LakeUrl = "",
    writer: Annotated[
        list[str] | None, typer.Option("--writer", metavar="ROLE", help="Another role that writes to the lake.")
    ] = None,
    print_sql: PrintSql = False,
) -> None:
    """Attach a DuckLake whose catalog is in Sexton's database. Safe to repeat.

    Registers the instance, and its data path as a vault. Then the lake gets a view of its live files, three triggers,
    two indexes, and the option that ends its own deletions. Nothing is deleted before: sexton enable INSTANCE

    A bucket at another S3 endpoint than the setting: register it first, under the same name: sexton vault add

    Example: sexton ducklake attach lake --schema public
    """
    from sexton.operators.registry.store import check_view_name
    from sexton.owners.ducklake import catalog, statements
    from sexton.owners.ducklake.model import VERSIONS, Lake, vault_of, view_of

    with open_database() as service, _lake_database(service, lake_url) as lake_db:
        check_view_name(view_of(schema))  # before anything is read or registered
        with log_call(service, "ducklake attach", name, vault):
            facts = catalog.read(lake_db, schema)
            if facts.version not in VERSIONS:
                known = ", ".join(VERSIONS)
                raise BadInput(f"the lake's catalog has version {facts.version}; this Sexton knows {known}")
            spec = vault_of(name, vault, facts.data_path)
            writers = tuple(sorted({_login(lake_db), *(writer or ())} - {_login(service.db)}))  # without Sexton's own
            reader = service.db.live_login(name)
            if not reader:
                raise BadInput(
                    "a login of its own reads the live view of each lake, and none is set; set live_database_url = "
                    "postgresql://{instance}_reader@HOST/NAME (docs/integration.md)"
                )
            lake = Lake(name, vault, schema, facts.data_path, writers, reader)
            _register(service, lake, spec)
            sql = statements.attach(lake)
            if print_sql:
                typer.echo(statements.script([*sql, *statements.refuse_unclear_files(lake)]))
                return
            catalog.run(lake_db, schema, sql, statements.unclear_files(lake))
    typer.echo(f"lake {name} is attached: {facts.data_path} is its vault {vault}")
    typer.echo(f"next: sexton check run {name}; sexton plan {name}; sexton enable {name}")


def detach(name: Instance, lake_url: LakeUrl = "", print_sql: PrintSql = False) -> None:
    """Detach a lake: files that wait are again in its own list, and its own cleaners delete again.

    Refused while a round deletes some. The instance and its history stay in Sexton, which keeps what is left of it.

    Example: sexton ducklake detach lake
    """
    from sexton.owners.ducklake import catalog, statements

    with (
        open_database() as service,
        _lake_database(service, lake_url) as lake_db,
        log_call(service, "ducklake detach", name),
    ):
        lake = _attached_lake(service, name)
        sql = statements.detach(lake)
        if print_sql:
            typer.echo(statements.script(sql))
            return
        try:
            catalog.run(lake_db, lake.schema, sql)
        except catalog.LakeRefused as e:
            if "SX001" not in str(e):
                raise
            see = f"see: sexton status {name}; without a round, discard what sexton quarantine list {name} shows"
            raise catalog.LakeRefused(f"{e}; try again when the round has ended ({see})") from e
    typer.echo(f"lake {name} is detached; its own cleaners delete its files again")


def status(name: Instance, lake_url: LakeUrl = "") -> None:
    """Print whether a lake is attached as it should be. Exit code 1: it is not, and Sexton keeps its files.

    Example: sexton ducklake status lake
    """
    from sexton.owners.ducklake import catalog
    from sexton.owners.ducklake.model import problems
    from sexton.owners.port import OwnerSilent

    with open_database() as service, _lake_database(service, lake_url) as lake_db:
        lake = _attached_lake(service, name)
        facts = catalog.read(lake_db, lake.schema)
        reasons = tuple(problems(facts, lake.data_path))
        if not reasons:
            try:
                service.stores.owners.live_as_of(name)
            except OwnerSilent as e:
                reasons = (f"Sexton cannot read the live view: {e.__cause__ or e}",)
    shown = LakeStatus(
        instance=name, attached=not reasons, version=facts.version, data_path=facts.data_path, problems=reasons
    )
    finish("ducklake status", shown, {})
    if reasons:
        again = f"attach it again: sexton ducklake attach {name}{', with the same --lake-url' if lake_url else ''}"
        typer.echo(again)
        raise typer.Exit(1)


def _lake_database(service: "Deployment", url: str) -> "AbstractContextManager[Database]":
    """Return the database of the lake, to be opened: Sexton's own, with another login if a URL names one."""
    from sexton.database.engine import Database

    if not url:
        return nullcontext(service.db)
    if not re.match(r"postgres(ql)?(\+psycopg)?://", url):
        raise WrongUsage(
            "the catalog of a lake is attached only in the PostgreSQL database that has Sexton's tables: copy the "
            "lake's tables (ducklake_…) into a schema there, let every client ATTACH 'ducklake:postgres:…', and name "
            "its login in --lake-url"
        )
    return closing(Database.open(url))


def _login(db: "Database") -> str:
    with db.read() as c:
        return str(c.exec_driver_sql("SELECT current_user").scalar_one())


def _register(service: "Deployment", lake: "Lake", spec: "VaultSpec") -> None:
    """Register the instance, its vault and its live view, and let the lake's roles mark. Safe to repeat."""
    from sexton.database import roles
    from sexton.owners.ducklake.model import view_of
    from sexton.owners.plugins import add_instance
    from sexton.storage.kinds import kind_of

    registry = service.stores.registry
    options = {"data_path": lake.data_path, "vault": lake.vault, "schema": lake.schema}
    if lake.instance not in [i.id for i in registry.instances()]:
        add_instance(service.db, registry, lake.instance, "ducklake", options)
    spec = kind_of(spec).check(spec)  # as it is registered, also where the data path leads through a link
    place = (spec.name, spec.kind, spec.location, spec.prefix)
    if place not in [(v.name, v.kind, v.location, v.prefix) for v in registry.vaults(lake.instance)]:
        service.add_vault(spec)
    # After the vault was accepted: an attached lake would be detached with the options of a refused attempt.
    add_instance(service.db, registry, lake.instance, "ducklake", options)
    registry.set_live_view(lake.instance, view_of(lake.schema))
    for role in lake.writers:
        roles.grant(service.settings.database_url, role)
        roles.grant_instance(service.db, lake.instance, role)


def _attached_lake(service: "Deployment", name: str) -> "Lake":
    """Return the lake that an instance is; ``BadInput``: it is none."""
    from sexton.owners.ducklake.model import Lake

    instance = service.stores.registry.instance(name)
    options = instance.owner_options
    if instance.owner != "ducklake":
        raise BadInput(f"instance {name} is no DuckLake; its owner is {instance.owner}")
    return Lake(name, options["vault"], options["schema"], options["data_path"])


COMMANDS = {"ducklake attach": attach, "ducklake detach": detach, "ducklake status": status}
