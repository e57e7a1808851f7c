"""Binlogs: their configuration, records, consumers and drops; see ``sexton.replication.binlog``."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import Caller, CurrentCaller, SelectedInstance, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.operator_service import OperatorService
from sexton.operations.registry import Deed
from sexton.operators.access import policy
from sexton.operators.access.model import Grant
from sexton.protocol.binlogs import (
    Acknowledgement,
    ConsumerRegistration,
    Consumers,
    DroppedCopies,
    LogConfig,
    LogsBody,
    NewRecords,
)
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.names import NAME
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, Consumer, Log, LogRetention, Record, RecordPage, StoreResult
from sexton.replication.binlog.policy import parse_ttl

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Database = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=NAME)]
Name = Annotated[str, Path(pattern=NAME)]
DatabaseParameter = Annotated[str, Query(pattern=NAME)]
TableParameter = Annotated[str | None, Query(pattern=NAME, description="default: the database's own log")]
After = Annotated[int, Query(ge=0, lt=MAX_COMMIT_SEQ)]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@routes.get("/databases")
def logs(
    service: Service, caller: CurrentCaller, instance: SelectedInstance, db: str = "", table: str = ""
) -> LogsBody:
    """Return at most 1,000 logs in the order of databases and tables, behind the given one."""
    caller.require(Grant.READ, instance)
    return LogsBody(logs=tuple(service.stores.binlogs.configs.logs(instance, (db, table))))


@routes.put("/databases/{db}/binlog")
def keep_database(
    db: Database, body: LogConfig, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Log:
    """Configure the log of a database. An enabled log contains all tables of the database."""
    return _keep(db, "", body, service, caller, instance)


@routes.put("/databases/{db}/tables/{table}/binlog")
def keep_table(
    db: Database, table: Table, body: LogConfig, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Log:
    """Configure the log of a table whose database has no log."""
    return _keep(db, table, body, service, caller, instance)


def _keep(db: str, table: str, body: LogConfig, service: Service, caller: CurrentCaller, instance: str) -> Log:
    settings = body.model_dump_json(exclude_defaults=True)
    with caller.recorded(Deed("binlog set", instance, Grant.OWNER, f"{db}/{table}".rstrip("/"), settings)):
        config = LogRetention(enabled=body.enable, ttl_seconds=parse_ttl(body.ttl_seconds), max_bytes=body.max_bytes)
        config = config.model_copy(update={"max_history_nums": body.max_history_nums})
        return service.stores.binlogs.configs.put(instance, db, table, config, body.from_seq)


@routes.delete("/databases/{db}")
def drop_database(db: Database, service: Service, caller: CurrentCaller, instance: SelectedInstance) -> DroppedCopies:
    """Record that a database is dropped permanently: every backend deletes all of its binlogs. Idempotent."""
    return _drop(db, "", service, caller, instance)


@routes.delete("/databases/{db}/tables/{table}")
def drop_table(
    db: Database, table: Table, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> DroppedCopies:
    """Record that a table is dropped permanently: every backend deletes all of its binlogs. Idempotent."""
    return _drop(db, table, service, caller, instance)


def _drop(db: str, table: str, service: Service, caller: CurrentCaller, instance: str) -> DroppedCopies:
    with caller.recorded(Deed("binlog drop", instance, Grant.OWNER, f"{db}/{table}".rstrip("/"))):
        return DroppedCopies(replicas=service.stores.binlogs.configs.drop(instance, db, table))


@routes.post("/databases/{db}/binlogs", max_body_size=MAX_ITEMS_BYTES)
def add(
    db: Database, body: NewRecords, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> StoreResult:
    """Store records of a database, in the order of its commits. Idempotent."""
    with caller.routine(Deed("binlog add", instance, Grant.OWNER, db)):
        records = [Record.model_validate(record, from_attributes=True) for record in body.records]
        return service.stores.binlogs.records.add(instance, db, records)


@routes.get("/binlogs")
def read(
    service: Service,
    caller: CurrentCaller,
    instance: SelectedInstance,
    db: DatabaseParameter,
    table: TableParameter = None,
    after: After = 0,
    limit: Limit = 1_000,
    consumer: str | None = None,
) -> RecordPage:
    """Return the records of a log behind one: ``TOO_NEW`` if there is none yet, refused if they are deleted."""
    _require_log(service, caller, Grant.READ, (instance, db, table or ""), consumer)
    return service.stores.binlogs.records.read(instance, db, table or "", after, limit)


@routes.get("/consumers")
def consumers(service: Service, caller: CurrentCaller, instance: SelectedInstance) -> Consumers:
    """Return the consumers, the logs that they read, and what each has acknowledged."""
    caller.require(Grant.READ, instance)
    return Consumers(consumers=tuple(service.stores.binlogs.consumers.all(instance)))


@routes.put("/consumers/{consumer}")
def register(
    consumer: Name, body: ConsumerRegistration, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Consumer:
    """Register a consumer: records that it lacks are no longer deleted. Refused if one of them is deleted already.

    A job's own token repeats the registration of its logs, also for up to ten runs; an operator sends the first one.
    """
    log = (instance, body.db, body.table or "")
    with caller.recorded(Deed("binlog consumer register", instance, Grant.OPERATE, consumer, job=consumer), keeps=True):
        _require_log(service, caller, Grant.OPERATE, log, consumer)
        return service.stores.binlogs.consumers.register(instance, consumer, body.db, body.table or "", body.after)


@routes.post("/consumers/{consumer}/acknowledge")
def acknowledge(
    consumer: Name, body: Acknowledgement, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Consumer:
    """Store up to which record a consumer has everything. Repeating one changes nothing."""
    with caller.routine(Deed("binlog acknowledge", instance, Grant.OPERATE, consumer, job=consumer)):
        log = (instance, body.db, body.table or "")
        _require_log(service, caller, Grant.OPERATE, log, consumer)
        return service.stores.binlogs.consumers.acknowledge(instance, consumer, body.db, log[2], body.commit_seq)


@routes.delete("/consumers/{consumer}", status_code=204)
def remove(
    consumer: Name,
    service: Service,
    caller: CurrentCaller,
    instance: SelectedInstance,
    db: DatabaseParameter,
    table: TableParameter = None,
) -> None:
    """Remove a consumer, so that it no longer blocks the deletion of records. Idempotent."""
    with caller.recorded(Deed("binlog consumer remove", instance, Grant.OPERATE, consumer, job=consumer)):
        service.stores.binlogs.consumers.remove(instance, consumer, db, table or "")


def _require_log(
    service: OperatorService, caller: Caller, grant: Grant, log: tuple[str, str, str], job: str | None
) -> None:
    """Raise ``Forbidden`` unless the token permits it; a job's own only for a log that an operator registered for it.

    ``log``: instance, database and table.
    """
    instance = log[0]
    caller.require(grant, instance, job=job)
    policy.check_log(caller.scopes, grant, instance, service.stores.binlogs.consumers.names(*log))
