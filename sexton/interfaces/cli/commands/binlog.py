"""`sexton binlog`: logs of databases and tables, how each is kept, who reads it, and what keeps what has expired."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, one_instance, opened, recorded, seconds
from sexton.interfaces.cli.output import dump, many, show
from sexton.interfaces.cli.render.binlogs import consumer_row, ends, log_row, show_explained
from sexton.replication.binlog.model import MOST

app = typer.Typer(help="Binlogs of databases and tables, and how far they are cut.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="DB", help="The database.")]
Table = Annotated[str, typer.Argument(metavar="[TABLE]", help="The table; none: the database's own log.")]
Of = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
SHOWN = 1_000


def called(name: str, table: str) -> str:
    """Return what a log is called: ``DB``, or ``DB/TABLE``."""
    return f"{name}/{table}" if table else name


@app.command("list")
def list_(
    instance: Of = None,
    after: Annotated[str, typer.Option(metavar="DB[/TABLE]", help="Only logs that come after this one.")] = "",
    as_json: Json = False,
) -> None:
    """Print logs: how each is kept, how much of it there is, who holds it, what waits; a thousand at a time.

    Example: sexton binlog list
    """
    from sexton.interfaces.operator_service import OperatorService

    name, _, table = after.partition("/")
    with opened() as (settings, db):
        configs, of = OperatorService(settings, db).binlogs.configs, one_instance(db, instance)
        found = configs.logs(of, (name, table), SHOWN + 1)
        own = {its.db: its for its in found if not its.tbl}
        own |= {its.db: configs.log(of, its.db) for its in found[:1] if its.db not in own}
    logs = found[:SHOWN]
    if as_json:
        whole = {its.name: bool(its.tbl) and own[its.db].enabled for its in logs}
        more = [{"kept": its.kept, "first": its.floor + 1, "in_database_log": whole[its.name]} for its in logs]
        dump([its.model_dump(mode="json") | extra for its, extra in zip(logs, more, strict=True)])
        return
    none = f"no log of {of} is known: begin with: sexton binlog set DB --ttl 7d"
    columns = ("binlog", "kept for", "records", "bytes", "first available", "last", "held by", "state")
    show("" if logs else none, columns, [log_row(its, own[its.db]) for its in logs])
    if len(found) > SHOWN:
        typer.echo(f"these are the first {SHOWN}; the next: --after '{logs[-1].name}'")


@app.command("explain")
def explain(name: Name, table: Table = "", instance: Of = None, as_json: Json = False) -> None:
    """Print what a cut would do now, and because of whom no more; then which copies still have to let go.

    It decides as a cut does; nothing is cut.

    Example: sexton binlog explain sales
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.sql.explain import explain as explained

    with opened() as (settings, db):
        found = explained(db, OperatorService(settings, db).binlogs, one_instance(db, instance), name, table)
    if as_json:
        dump(found.model_dump(mode="json"))
    else:
        show_explained(found)


@app.command("set")
def set_(
    name: Name,
    ttl: Annotated[str, typer.Option(metavar="7d|forever", help="How long a record stays.")],
    table: Table = "",
    max_bytes: Annotated[int | None, typer.Option(min=0, max=MOST, help="No more bytes of data than that.")] = None,
    max_records: Annotated[int | None, typer.Option(min=0, max=MOST, help="No more records than that.")] = None,
    from_seq: Annotated[
        int, typer.Option(min=0, max=MOST - 1, help="The database's commit_seq now: no earlier record is in it.")
    ] = 0,
    instance: Of = None,
) -> None:
    """Keep a log from now on, and say for how long; what is not named has no limit.

    A database's log holds the records of all its tables, which are cut with it. What is longer than a TTL of before is
    kept from the next look on; what is shorter lets go with it.

    Example: sexton binlog set sales --ttl 7d
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.model import Config
    from sexton.replication.binlog.policy import FOREVER
    from sexton.replication.binlog.policy import ttl as checked

    if "/" in name + table:
        raise WrongUsage("write the database and the table as two words: DB TABLE")
    lasts = checked(FOREVER if ttl == FOREVER else seconds(ttl))
    config = Config(ttl_seconds=lasts, max_bytes=max_bytes, max_history_nums=max_records)
    with opened() as (settings, db):
        configs, of = OperatorService(settings, db).binlogs.configs, one_instance(db, instance)
        with recorded(db, "binlog set", of, called(name, table), f"ttl {ttl}"):
            its = configs.put(of, name, table, config, from_seq)
        own = configs.log(of, name)
    typer.echo(f"binlog {its.name} is kept: {ends(its)}; the first available record is {its.floor + 1}")
    if table and own.enabled:
        typer.echo(f"its database has a log: until that is disabled, {table} is in it and is cut with it")


@app.command("disable")
def disable(name: Name, table: Table = "", instance: Of = None) -> None:
    """Keep a log no more: new records are not stored, what is there goes by its rule.

    Nobody can read it then. Who reads it when it is enabled again must copy the data anew.

    Example: sexton binlog disable sales
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.model import Config

    with opened() as (settings, db):
        configs, of = OperatorService(settings, db).binlogs.configs, one_instance(db, instance)
        before = configs.log(of, name, table)
        config = Config(**before.model_dump(include=set(Config.model_fields)) | {"enabled": False})
        with recorded(db, "binlog disable", of, before.name):
            configs.put(of, name, table, config)
    typer.echo(f"binlog {before.name} is kept no more; {many(before.kept, 'record')} of it are there: {ends(before)}")


@app.command("approve")
def approve(name: Name, table: Table = "", instance: Of = None, yes: Yes = False) -> None:
    """Let a cut go that waits because it takes very much; no more of it than is shown.

    Example: sexton binlog approve sales
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.kernel.errors import BadInput
    from sexton.replication.binlog.sql.explain import explain as explained

    with opened() as (settings, db):
        binlogs, of = OperatorService(settings, db).binlogs, one_instance(db, instance)
        found, what = explained(db, binlogs, of, name, table), called(name, table)
        line = next((i for i in found.lines if i.log.name == what and i.log.wants is not None), None)
        if line is None:
            raise BadInput(f"nothing of {what} waits for approval; see: sexton binlog list")
        its = line.log
        typer.echo(f"binlog {its.name}: {many(line.waits, 'record')} of {its.kept:,} go, all up to {its.wants}")
        for who, acked in its.held.items():
            typer.echo(f"  consumer {who} has all up to {acked}: what is behind that goes when it has that")
        if not yes:
            typer.confirm("may they go?", abort=True, err=True)
        with recorded(db, "binlog approve", of, its.name, f"up to {its.wants}"):
            binlogs.configs.approve(of, name, table, upto=its.wants)
    typer.echo(f"approved; the next look cuts it; at once: sexton binlog gc --instance {of}")


@app.command("drop")
def drop(name: Name, table: Table = "", instance: Of = None, yes: Yes = False) -> None:
    """Say that a database, or a table, is dropped for good: all of its binlogs go, on every backend.

    Nobody holds them any more, and the name never comes back. Owners do this over the API when they drop one.

    Example: sexton binlog drop sales orders --yes
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.errors import UnknownLog
    from sexton.replication.replicas.sql.figures import copies

    what = called(name, table)
    with opened() as (settings, db):
        binlogs, of = OperatorService(settings, db).binlogs, one_instance(db, instance)
        with db.read() as c:
            there = copies(db, c, of, name, table)
        try:
            its = binlogs.configs.log(of, name, table)
        except UnknownLog:
            if not there:  # a name that was mistyped would be dropped for ever
                raise
        else:
            whole = table and binlogs.configs.log(of, name).enabled
            stay = "; those that are in its database's log stay until that is cut" if whole else ""
            typer.echo(f"binlog {what}: {many(its.kept, 'record')} go{stay}")
        for reader in binlogs.consumers.all(of):
            if reader.db == name and table in ("", reader.tbl):
                typer.echo(f"  consumer {reader.name} of {called(name, reader.tbl)} holds nothing any more")
        typer.echo(f"  {many(there, 'copy', 'copies')} of tablets let go of everything")
        if not yes:
            typer.confirm(f"is {what} dropped for good?", abort=True, err=True)
        with recorded(db, "binlog drop", of, what):
            binlogs.configs.drop(of, name, table)
    typer.echo(f"{what} is dropped; its records go with the next look, its files with the next pull of each backend")


@app.command("consumers")
def consumers(instance: Of = None, as_json: Json = False) -> None:
    """Print who reads which log, up to where each has it, and who is LOST.

    Example: sexton binlog consumers
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db):
        of = one_instance(db, instance)
        found = OperatorService(settings, db).binlogs.consumers.all(of)
    if as_json:
        dump([c.model_dump(mode="json") for c in found])
        return
    columns = ("consumer", "binlog", "has all up to", "heard of (UTC)", "since (UTC)", "state")
    show("" if found else f"nobody reads a binlog of {of}", columns, [consumer_row(c) for c in found])


@app.command("consumer-remove")
def consumer_remove(
    consumer: Annotated[str, typer.Argument(help="Its name.")], name: Name, table: Table = "", instance: Of = None
) -> None:
    """Let a consumer hold nothing any more: it will never read again.

    Example: sexton binlog consumer-remove lisbon sales
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.errors import UnknownConsumer

    what = called(name, table)
    with opened() as (settings, db):
        of = one_instance(db, instance)
        with recorded(db, "binlog consumer-remove", of, f"{consumer} of {what}"):
            if not OperatorService(settings, db).binlogs.consumers.remove(of, consumer, name, table):
                raise UnknownConsumer(consumer, what)
    typer.echo(f"consumer {consumer} holds nothing of {what} any more")
