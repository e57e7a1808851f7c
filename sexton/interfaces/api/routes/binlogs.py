"""Binlogs: how logs are kept, their records, who reads them, and what their end is; see ``sexton.binlog``."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import Asker, AtDesk, Instance, Reader
from sexton.operators.access.model import Grant
from sexton.protocol.binlogs import (
    Acknowledgement,
    Consumers,
    Consuming,
    DroppedCopies,
    LogConfig,
    LogsBody,
    NewRecords,
)
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.names import NAME
from sexton.replication.binlog.model import MOST, Config, Consumer, Log, Read, Record, Stored
from sexton.replication.binlog.policy import ttl

routes = APIRouter(prefix="/v1")
Database = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=NAME)]
Name = Annotated[str, Path(pattern=NAME)]
OfDatabase = Annotated[str, Query(pattern=NAME)]
OfTable = Annotated[str | None, Query(pattern=NAME, description="none: the database's own log")]
After = Annotated[int, Query(ge=0, lt=MOST)]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@routes.get("/databases")
def logs(at: AtDesk, _: Reader, instance: Instance, db: str = "", table: str = "") -> LogsBody:
    """Return logs, a thousand at a time, in the order of databases and tables, behind the one that is named."""
    return LogsBody(logs=tuple(at.binlogs.configs.logs(instance, (db, table))))


@routes.put("/databases/{db}/binlog")
def keep_database(db: Database, body: LogConfig, at: AtDesk, asker: Asker, instance: Instance) -> Log:
    """Say how the log of a database is kept. Where it is enabled, all of its tables are in it."""
    return _keep(db, "", body, at, asker, instance)


@routes.put("/databases/{db}/tables/{table}/binlog")
def keep_table(db: Database, table: Table, body: LogConfig, at: AtDesk, asker: Asker, instance: Instance) -> Log:
    """Say how the log of a table is kept, where its database has none."""
    return _keep(db, table, body, at, asker, instance)


def _keep(db: str, table: str, body: LogConfig, at: AtDesk, asker: Asker, instance: str) -> Log:
    kept = body.model_dump_json(exclude_defaults=True)
    with asker.recorded(at, "binlog set", instance, f"{db}/{table}".rstrip("/"), kept):
        asker.needs(Grant.OPERATE)
        config = Config(enabled=body.enable, ttl_seconds=ttl(body.ttl_seconds), max_bytes=body.max_bytes)
        config = config.model_copy(update={"max_history_nums": body.max_history_nums})
        return at.binlogs.configs.put(instance, db, table, config, body.from_seq)


@routes.delete("/databases/{db}")
def drop_database(db: Database, at: AtDesk, asker: Asker, instance: Instance) -> DroppedCopies:
    """Say that a database is dropped for good: all of its binlogs go, on every backend. Idempotent."""
    return _drop(db, "", at, asker, instance)


@routes.delete("/databases/{db}/tables/{table}")
def drop_table(db: Database, table: Table, at: AtDesk, asker: Asker, instance: Instance) -> DroppedCopies:
    """Say that a table is dropped for good: all of its binlogs go, on every backend. Idempotent."""
    return _drop(db, table, at, asker, instance)


def _drop(db: str, table: str, at: AtDesk, asker: Asker, instance: str) -> DroppedCopies:
    with asker.recorded(at, "binlog drop", instance, f"{db}/{table}".rstrip("/")):
        asker.needs(Grant.OPERATE)
        return DroppedCopies(replicas=at.binlogs.configs.drop(instance, db, table))


@routes.post("/databases/{db}/binlogs", max_body_size=MAX_ITEMS_BYTES)
def add(db: Database, body: NewRecords, at: AtDesk, asker: Asker, instance: Instance) -> Stored:
    """Store records of a database, in the order of their commits. Sent again they are known."""
    asker.needs(Grant.OPERATE)
    records = [Record.model_validate(its, from_attributes=True) for its in body.records]
    return at.binlogs.records.add(instance, db, records)


@routes.get("/binlogs")
def read(
    at: AtDesk,
    asker: Asker,
    instance: Instance,
    db: OfDatabase,
    table: OfTable = None,
    after: After = 0,
    limit: Limit = 1_000,
    consumer: str | None = None,
) -> Read:
    """Return the records of a log behind one; ``TOO_NEW`` where there is none yet, refused where they are gone."""
    asker.needs(Grant.READ, job=consumer)
    return at.binlogs.records.read(instance, db, table or "", after, limit)


@routes.get("/consumers")
def consumers(at: AtDesk, _: Reader, instance: Instance) -> Consumers:
    """Return who reads which log, and up to where each has it."""
    return Consumers(consumers=tuple(at.binlogs.consumers.all(instance)))


@routes.put("/consumers/{consumer}")
def register(consumer: Name, body: Consuming, at: AtDesk, asker: Asker, instance: Instance) -> Consumer:
    """Register a consumer: nothing goes that it does not have. Refused where what it lacks is gone already."""
    asker.needs(Grant.OPERATE, job=consumer)
    return at.binlogs.consumers.register(instance, consumer, body.db, body.table or "", body.after)


@routes.post("/consumers/{consumer}/acknowledge")
def acknowledge(consumer: Name, body: Acknowledgement, at: AtDesk, asker: Asker, instance: Instance) -> Consumer:
    """Say up to which record a consumer has everything. One that it said before is as good."""
    asker.needs(Grant.OPERATE, job=consumer)
    return at.binlogs.consumers.acknowledge(instance, consumer, body.db, body.table or "", body.commit_seq)


@routes.delete("/consumers/{consumer}", status_code=204)
def remove(consumer: Name, at: AtDesk, asker: Asker, instance: Instance, db: OfDatabase, table: OfTable = None) -> None:
    """Let a consumer hold nothing any more. Idempotent."""
    with asker.recorded(at, "binlog consumer remove", instance, consumer):
        asker.needs(Grant.OPERATE, job=consumer)
        at.binlogs.consumers.remove(instance, consumer, db, table or "")
