"""`sexton binlog`: list logs of databases and tables, their retention and consumers, and what blocks expiry."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import (
    OptionalInstance,
    WrongUsage,
    log_call,
    one_instance,
    open_database,
    parse_duration,
)
from sexton.interfaces.cli.json_output import emit, emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.binlogs import consumer_row, log_row, retention, show_explanation
from sexton.interfaces.wording import quantity
from sexton.replication.binlog.model import MAX_COMMIT_SEQ

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.replication.binlog.binlogs import BinlogService
    from sexton.replication.binlog.model import Log

app = typer.Typer(help="Binlogs of databases and tables, and how far they are cut.", no_args_is_help=True)
DatabaseName = Annotated[str, typer.Argument(metavar="DB", help="The database.")]
TableName = Annotated[str, typer.Argument(metavar="[TABLE]", help="The table; none: the database's own log.")]
InstanceOption = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
PAGE_ROWS = 1_000


def log_name(database: str, table: str) -> str:
    """Return the name of a log: ``DB``, or ``DB/TABLE``."""
    return f"{database}/{table}" if table else database


@app.command("list")
def list_(
    instance: OptionalInstance = None,
    after: Annotated[str, typer.Option(metavar="DB[/TABLE]", help="Only logs that come after this one.")] = "",
) -> None:
    """Print logs, a thousand at a time.

    Retention, size, the consumers that block deletions, and cuts that wait for approval.

    Example: sexton binlog list
    """
    database, _, table = after.partition("/")
    with open_database() as service:
        configs, name = service.stores.binlogs.configs, one_instance(service, instance)
        page = configs.logs(name, (database, table), PAGE_ROWS + 1)
        database_logs = {log.db: log for log in page if not log.tbl}
        # The page may begin with tables whose database's own log was on the page before.
        database_logs |= {log.db: configs.log(name, log.db) for log in page[:1] if log.db not in database_logs}
    logs = page[:PAGE_ROWS]
    if wants_json():
        emit_list([_log_json(log, database_logs[log.db]) for log in logs], more=len(page) > PAGE_ROWS)
        return
    none = f"no log of {name} is known: begin with: sexton binlog set DB --ttl 7d"
    columns = ("binlog", "kept for", "records", "bytes", "first available", "last", "blocked by", "state")
    show_table("" if logs else none, columns, [log_row(log, database_logs[log.db]) for log in logs])
    if len(page) > PAGE_ROWS:
        typer.echo(f"these are the first {PAGE_ROWS}; the next: --after '{logs[-1].name}'")


@app.command("explain")
def explain(database: DatabaseName, table: TableName = "", instance: InstanceOption = None) -> None:
    """Explain what a cut would delete now.

    Also what blocks the rest, and which replicas still have to delete. The command decides as a cut does; nothing is
    cut.

    Example: sexton binlog explain sales
    """
    from sexton.replication.binlog.sql.explain import explain as explain_log

    with open_database() as service:
        binlogs = service.stores.binlogs
        explanation = explain_log(service.db, binlogs, one_instance(service, instance), database, table)
    if wants_json():
        emit(explanation)
    else:
        show_explanation(explanation)


@app.command("set")
def set_(
    database: DatabaseName,
    ttl: Annotated[str, typer.Option(metavar="7d|forever", help="How long a record is kept.")],
    table: TableName = "",
    max_bytes: Annotated[
        int | None, typer.Option(min=0, max=MAX_COMMIT_SEQ, help="Keep no more bytes of data.")
    ] = None,
    max_records: Annotated[int | None, typer.Option(min=0, max=MAX_COMMIT_SEQ, help="Keep no more records.")] = None,
    from_seq: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_COMMIT_SEQ - 1, help="The database's commit_seq now: the log has no earlier record."
        ),
    ] = 0,
    instance: InstanceOption = None,
) -> None:
    """Enable a log and set its retention.

    An option that is not given sets no limit. A database's log contains the records of all its tables, which are cut
    with it. A longer TTL applies from the next run; a shorter one deletes expired records at the next run.

    Example: sexton binlog set sales --ttl 7d
    """
    from sexton.replication.binlog.model import LogRetention
    from sexton.replication.binlog.policy import FOREVER
    from sexton.replication.binlog.policy import parse_ttl as checked_ttl

    if "/" in database + table:
        raise WrongUsage("write the database and the table as two words: DB TABLE")
    ttl_seconds = checked_ttl(FOREVER if ttl == FOREVER else parse_duration(ttl))
    config = LogRetention(ttl_seconds=ttl_seconds, max_bytes=max_bytes, max_history_nums=max_records)
    with open_database() as service:
        configs, name = service.stores.binlogs.configs, one_instance(service, instance)
        with log_call(service, "binlog set", name, log_name(database, table), f"ttl {ttl}"):
            log = configs.put(name, database, table, config, from_seq)
        database_log = configs.log(name, database)
    typer.echo(f"binlog {log.name} is enabled: {retention(log)}; the first available record is {log.floor + 1}")
    if table and database_log.enabled:
        typer.echo(f"its database has a log: until that is disabled, it contains {table}, which is cut with it")


@app.command("disable")
def disable(database: DatabaseName, table: TableName = "", instance: InstanceOption = None) -> None:
    """Disable a log.

    New records are not stored, and stored records are deleted by its rule. It can no longer be read. After it is
    enabled again, its readers must make a new full copy.

    Example: sexton binlog disable sales
    """
    from sexton.replication.binlog.model import LogRetention

    with open_database() as service:
        configs, name = service.stores.binlogs.configs, one_instance(service, instance)
        log = configs.log(name, database, table)
        config = LogRetention(**log.model_dump(include=set(LogRetention.model_fields)) | {"enabled": False})
        with log_call(service, "binlog disable", name, log.name):
            configs.put(name, database, table, config)
    typer.echo(f"binlog {log.name} is disabled; it has {quantity(log.kept, 'record')}: {retention(log)}")


@app.command("approve")
def approve(database: DatabaseName, table: TableName = "", instance: InstanceOption = None, yes: Yes = False) -> None:
    """Approve a very large cut that waits.

    Only the records that are shown are approved.

    Example: sexton binlog approve sales
    """
    with open_database() as service:
        binlogs, name = service.stores.binlogs, one_instance(service, instance)
        log = _show_waiting_cut(service.db, binlogs, name, database, table)
        if not yes:
            typer.confirm("May these records be deleted?", abort=True, err=True)
        with log_call(service, "binlog approve", name, log.name, f"up to {log.awaiting_seq}"):
            binlogs.configs.approve(name, database, table, upto=log.awaiting_seq)
    typer.echo(f"approved; the next run cuts it; at once: sexton binlog gc {name}")


@app.command("drop")
def drop(database: DatabaseName, table: TableName = "", instance: InstanceOption = None, yes: Yes = False) -> None:
    """Report a permanent drop of a database or table.

    All of its binlogs are deleted, on every backend. Consumers and replicas no longer block their deletion, and the
    name is never used again. Owners report this over the API when they drop one.

    Example: sexton binlog drop sales orders --yes
    """
    what = log_name(database, table)
    with open_database() as service:
        binlogs, name = service.stores.binlogs, one_instance(service, instance)
        _show_drop(service.db, binlogs, name, database, table)
        if not yes:
            typer.confirm(f"Is {what} dropped permanently?", abort=True, err=True)
        with log_call(service, "binlog drop", name, what):
            binlogs.configs.drop(name, database, table)
    typer.echo(f"{what} is dropped; the next run deletes its records, the next pull of each backend deletes its files")


@app.command("consumers")
def consumers(instance: OptionalInstance = None) -> None:
    """Print consumers.

    The log each reads, how far it has acknowledged, and whether it is LOST.

    Example: sexton binlog consumers
    """
    with open_database() as service:
        name = one_instance(service, instance)
        rows = service.stores.binlogs.consumers.all(name)
    if wants_json():
        emit_list(rows)
        return
    columns = ("consumer", "binlog", "acknowledged", "last contact (UTC)", "since (UTC)", "state")
    show_table("" if rows else f"{name} has no consumers of binlogs", columns, [consumer_row(c) for c in rows])


@app.command("remove-consumer")
def remove_consumer(
    consumer: Annotated[str, typer.Argument(help="Its name.")],
    database: DatabaseName,
    table: TableName = "",
    instance: InstanceOption = None,
) -> None:
    """Remove a consumer that will never read again.

    It no longer blocks deletions.

    Example: sexton binlog remove-consumer lisbon sales
    """
    from sexton.replication.binlog.errors import UnknownConsumer

    what = log_name(database, table)
    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "binlog remove-consumer", name, f"{consumer} of {what}"):
            if not service.stores.binlogs.consumers.remove(name, consumer, database, table):
                raise UnknownConsumer(consumer, what)
    typer.echo(f"consumer {consumer} of {what} is removed: it no longer blocks deletions")


def _log_json(log: "Log", database_log: "Log") -> dict[str, object]:
    in_database_log = bool(log.tbl) and database_log.enabled
    more = {"kept": log.kept, "first": log.floor + 1, "in_database_log": in_database_log}
    return stable(log) | more


def _show_waiting_cut(db: "Database", binlogs: "BinlogService", instance: str, database: str, table: str) -> "Log":
    """Print the cut that waits for approval and return its log; raise ``BadInput`` if none waits."""
    from sexton.kernel.errors import BadInput
    from sexton.replication.binlog.sql.explain import explain as explain_log

    what = log_name(database, table)
    lines = explain_log(db, binlogs, instance, database, table).lines
    line = next((i for i in lines if i.log.name == what and i.log.awaiting_seq is not None), None)
    if line is None:
        raise BadInput(f"no cut of {what} waits for approval; see: sexton binlog list")
    log = line.log
    records = quantity(line.waits, "record")
    typer.echo(f"binlog {log.name}: {records} of {log.kept:,} would be deleted, all up to {log.awaiting_seq}")
    for consumer, acknowledged in log.held.items():
        typer.echo(f"  consumer {consumer} has acknowledged all up to {acknowledged}: later records wait for it")
    return log


def _show_drop(db: "Database", binlogs: "BinlogService", instance: str, database: str, table: str) -> None:
    """Print what a drop deletes; raise ``UnknownLog`` for a name that has neither a log nor replicas."""
    from sexton.replication.binlog.errors import UnknownLog
    from sexton.replication.replicas.sql.figures import count_live_copies

    with db.read() as c:
        replicas = count_live_copies(db, c, instance, database, table)
    try:
        log = binlogs.configs.log(instance, database, table)
    except UnknownLog:
        if not replicas:  # a mistyped name would be dropped permanently
            raise
    else:
        in_database_log = table and binlogs.configs.log(instance, database).enabled
        rest = "; those in its database's log stay until that is cut" if in_database_log else ""
        typer.echo(f"binlog {log_name(database, table)}: {quantity(log.kept, 'record')} will be deleted{rest}")
    for consumer in binlogs.consumers.all(instance):
        if consumer.db == database and table in ("", consumer.tbl):
            name = log_name(database, consumer.tbl)
            typer.echo(f"  consumer {consumer.name} of {name} no longer blocks deletions")
    typer.echo(f"  {quantity(replicas, 'replica')} of tablets will delete all of their binlogs")
