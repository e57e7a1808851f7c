"""Binlogs of databases and tables: their retention, records and consumers, and what blocks expiry.

An order without a table is about the database's own log.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, FailFast, Field

from sexton.kernel.message import Message, Page, StrictMessage
from sexton.kernel.printable import PRINTABLE
from sexton.operations.fields import DURATION, ROWS, Flag, Instance, StartedWork, Whole, page, parse_duration
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.replication.agent.model import number_as_text
from sexton.replication.binlog.model import (
    MAX_COMMIT_SEQ,
    Consumer,
    GcRequest,
    Log,
    LogExplanation,
    LogRetention,
    RecordPage,
    StoredRecord,
    StoreResult,
)
from sexton.replication.binlog.policy import FOREVER, parse_ttl
from sexton.replication.errors import UnknownConsumer

NAME = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029/]{1,128}$"
"""The name of a database, a table or a consumer. It is a segment of a URL path."""
MAX_RECORDS = 10_000
CONSUMER_PATH = "/v1/consumers/{name}"


Name = Annotated[str, BeforeValidator(number_as_text), Field(pattern=NAME)]
Db = Annotated[Name, Flag(shown="DB"), Field(description="The database; a table is a word of its own, DB TABLE.")]
Table = Annotated[Name | None, Flag(shown="TABLE"), Field(description="The table; none: the database's own log.")]
ConsumerName = Annotated[Name, Flag(shown="CONSUMER"), Field(description="Its name.")]
Seq = Annotated[Whole, Field(ge=0, lt=MAX_COMMIT_SEQ)]
"""A commit_seq."""
StrictSeq = Annotated[int, Field(strict=True, ge=0, lt=MAX_COMMIT_SEQ)]
Size = Annotated[Whole, Field(ge=0, le=MAX_COMMIT_SEQ)]
"""A number of bytes or records."""
Ttl = Annotated[
    int | Literal["forever"],
    DURATION,
    BeforeValidator(lambda value: value if value == "forever" else parse_duration(value)),
    Flag("--ttl", "7d|forever"),
    Field(description="How long a record is kept; in JSON also seconds."),
]


def log_paths(method: str, address: str = "") -> str:
    """Return the method and the two paths of what is done to a database's log or a table's; ``address``: their end."""
    return f"{method} /v1/databases/{{db}}{address} /v1/databases/{{db}}/tables/{{table}}{address}"


class NewRecord(StrictMessage):
    """A record. ``timestamp``: ms since 1970, 0: none. ``data``: for an UPSERT, JSON with its ``tableRecords``."""

    commit_seq: StrictSeq
    timestamp: Annotated[int, Field(strict=True, ge=0)] = 0
    tables: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()
    type: Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)] = "UPSERT"
    data: Annotated[str, Field(max_length=4 << 20)] = ""


class NewRecords(StrictMessage):
    """Records of a database, in any order; each comes after all records that were sent before."""

    records: Annotated[tuple[NewRecord, ...], FailFast(), Field(max_length=MAX_RECORDS)]


class ShownLog(Log):
    """A log. ``first``: its first available record; ``in_database_log``: its records are in the database's log.

    ``dropped_at``: also that of its database.
    """

    kept_records: int = 0
    first: int = 0
    in_database_log: bool = False


class Forgotten(Message):
    """The number of tablet copies that were dropped, or forgotten with their backend."""

    replicas: int


def _shown(call: Call, instance: str, rows: tuple[Log, ...]) -> tuple[ShownLog, ...]:
    configs = call.stores.binlogs.configs
    own = {log.db: log for log in rows if not log.tbl}
    own |= {log.db: configs.log(instance, log.db) for log in rows[:1] if log.db not in own}
    return tuple(
        ShownLog(
            **log.model_dump(exclude={"dropped_at"}),
            dropped_at=own[log.db].dropped_at if log.dropped_at is None else log.dropped_at,
            kept_records=log.kept,
            first=log.floor + 1,
            in_database_log=bool(log.tbl) and own[log.db].enabled,
        )
        for log in rows
    )


@operation("binlog list", "GET /v1/databases", Grant.READ, READS)
def logs(
    call: Call,
    instance: Instance = "",
    *,
    after: Annotated[
        str, Flag(shown="DB[/TABLE]"), Field(max_length=257, description="Only logs that come after this one.")
    ] = "",
) -> Page[ShownLog]:
    """Print logs, a thousand at a time.

    Retention, size, the consumers that block deletions, and cuts that wait for approval.

    Example: sexton binlog list
    """
    db, _, table = after.partition("/")
    rows = tuple(call.stores.binlogs.configs.logs(instance, (db, table), ROWS + 1))
    return Page[ShownLog](**page(rows, ROWS, "name") | {"items": _shown(call, instance, rows[:ROWS])})


@operation("binlog explain", log_paths("GET", "/binlog"), Grant.READ, READS)
def explain_log(call: Call, db: Db, table: Table = None, *, instance: Instance = "") -> LogExplanation:
    """Explain what a cut would delete now.

    Also what blocks the rest, and which replicas still have to delete. The command decides as a cut does; nothing is
    cut.

    Example: sexton binlog explain sales
    """
    return call.stores.binlogs.explain(instance, db, table or "")


def _kept(db: str, table: str | None, **limits: object) -> str:
    """Return what the log of calls has: the log and its limits."""
    shown = {"ttl": "ttl_seconds", "bytes": "max_bytes", "records": "max_history_nums", "from": "from_seq"}
    given = ", ".join(f"{name} {limits[of]}" for name, of in shown.items() if limits[of] is not None)
    return f"{db} {table or ''}".rstrip() + f": {given}"


@operation("binlog set", log_paths("PUT", "/binlog"), Grant.OWNER, Logged(_kept))
def keep_log(
    call: Call,
    db: Db,
    table: Table = None,
    *,
    ttl_seconds: Ttl,
    max_bytes: Annotated[Size | None, Field(description="Keep no more bytes of data.")] = None,
    max_history_nums: Annotated[Size | None, Flag("--max-records"), Field(description="Keep no more records.")] = None,
    from_seq: Annotated[Seq, Field(description="The database's commit_seq now: the log has no earlier record.")] = 0,
    instance: Instance = "",
) -> ShownLog:
    """Enable a log and set its retention.

    A limit that is not given means none. A database's log contains the records of all its tables, which are cut
    with it. A longer TTL applies from the next run; a shorter one deletes expired records at the next run.

    Example: sexton binlog set sales --ttl 7d
    """
    ttl = parse_ttl(FOREVER if ttl_seconds == "forever" else ttl_seconds)
    config = LogRetention(ttl_seconds=ttl, max_bytes=max_bytes, max_history_nums=max_history_nums)
    [shown] = _shown(call, instance, (call.stores.binlogs.configs.put(instance, db, table or "", config, from_seq),))
    return shown


@operation("binlog disable", log_paths("POST", "/binlog/disable"), Grant.OWNER, Logged("{db} {table}"))
def disable_log(call: Call, db: Db, table: Table = None, *, instance: Instance = "") -> ShownLog:
    """Disable a log.

    New records are not stored, and stored records are deleted by its rule. It can no longer be read. After it is
    enabled again, its readers must make a new full copy.

    Example: sexton binlog disable sales
    """
    configs = call.stores.binlogs.configs
    log = configs.log(instance, db, table or "")
    config = LogRetention(**log.model_dump(include=set(LogRetention.model_fields)) | {"enabled": False})
    [shown] = _shown(call, instance, (configs.put(instance, db, table or "", config),))
    return shown


@operation("binlog approve", log_paths("POST", "/binlog/approve"), Grant.OPERATE, Logged("{db} {table} up to {upto}"))
def approve_cut(
    call: Call,
    db: Db,
    table: Table = None,
    *,
    upto: Annotated[Seq, Field(description="The last record that may be deleted, as it was shown (awaiting_seq).")],
    instance: Instance = "",
) -> Log:
    """Approve a very large cut that waits, up to the record that was shown: sexton binlog list.

    Example: sexton binlog approve sales --upto 4000
    """
    return call.stores.binlogs.configs.approve(instance, db, table or "", upto=upto)


@operation("binlog drop", log_paths("DELETE"), Grant.OWNER, Logged("{db} {table}", asks=True))
def drop_log(call: Call, db: Db, table: Table = None, *, instance: Instance = "") -> Forgotten:
    """Report a permanent drop of a database or table.

    All of its binlogs are deleted, on every backend. Consumers and replicas no longer block their deletion, and the
    name is never used again. Owners report this over the API when they drop one.

    Example: sexton binlog drop sales orders --yes
    """
    return Forgotten(replicas=call.stores.binlogs.configs.drop(instance, db, table or ""))


@operation("binlog add", "POST /v1/databases/{db}/binlogs", Grant.OWNER, Logged("{db}", routine=True), is_large=True)
def add_chunk(call: Call, db: Db, body: NewRecords, *, instance: Instance = "") -> StoreResult:
    """Store records of a database, in the order of its commits. Idempotent."""
    records = [StoredRecord.model_validate(record, from_attributes=True) for record in body.records]
    return call.stores.binlogs.records.add(instance, db, records)


@operation("binlog read", "GET /v1/binlogs", Grant.READ, Logged(changes=False, job="{consumer}"))
def read_records(
    call: Call,
    db: Db,
    table: Table = None,
    *,
    after: Annotated[Seq, Field(description="The last record that the caller has.")] = 0,
    limit: Annotated[int, Field(ge=1, le=1_000, description="How many at most.")] = 1_000,
    consumer: Annotated[
        Name | None, Field(description="The consumer that reads; its own token (sync:CONSUMER) is accepted.")
    ] = None,
    instance: Instance = "",
) -> RecordPage:
    """Print the records of a log behind one: TOO_NEW if there is none yet, refused (TOO_OLD) if they are deleted.

    Example: sexton binlog read sales --after 100
    """
    _require_log(call, Grant.READ, instance, db, table)
    return call.stores.binlogs.records.read(instance, db, table or "", after, limit)


@operation("binlog consumers", "GET /v1/consumers", Grant.READ, READS)
def consumers(call: Call, instance: Instance = "") -> Page[Consumer]:
    """Print consumers: the log each reads, how far it has acknowledged, and whether it is LOST.

    Example: sexton binlog consumers
    """
    return Page[Consumer](items=tuple(call.stores.binlogs.consumers.all(instance)))


@operation(
    "binlog register-consumer", f"PUT {CONSUMER_PATH}", Grant.OPERATE, Logged("{name}", job="{name}", keeps=True)
)
def register_consumer(
    call: Call,
    name: ConsumerName,
    db: Db,
    table: Table = None,
    *,
    after: Annotated[Seq | None, Field(description="The last record that it has; without it: it has none.")] = None,
    instance: Instance = "",
) -> Consumer:
    """Register a consumer: records that it lacks are no longer deleted. Refused if one of them is deleted already.

    A job's own token repeats the registration of its logs, also for up to ten runs; an operator sends the first one.

    Example: sexton binlog register-consumer lisbon sales
    """
    _require_log(call, Grant.OPERATE, instance, db, table)
    return call.stores.binlogs.consumers.register(instance, name, db, table or "", after)


@operation(
    "binlog acknowledge",
    f"POST {CONSUMER_PATH}/acknowledge",
    Grant.OPERATE,
    Logged("{name}", job="{name}", routine=True),
)
def acknowledge(
    call: Call,
    name: ConsumerName,
    db: Db,
    commit_seq: Annotated[Seq, Flag(shown="N"), Field(description="The record up to which it has everything.")],
    *,
    table: Table = None,
    instance: Instance = "",
) -> Consumer:
    """Store up to which record a consumer has everything. Repeatable.

    Example: sexton binlog acknowledge lisbon sales 4000
    """
    _require_log(call, Grant.OPERATE, instance, db, table)
    return call.stores.binlogs.consumers.acknowledge(instance, name, db, table or "", commit_seq)


@operation(
    "binlog remove-consumer",
    f"POST {CONSUMER_PATH}/remove",
    Grant.OPERATE,
    Logged("{name} of {db} {table}", job="{name}", once=True),
)
def remove_consumer(call: Call, name: ConsumerName, db: Db, table: Table = None, *, instance: Instance = "") -> None:
    """Remove a consumer that will never read again. It no longer blocks deletions.

    Example: sexton binlog remove-consumer lisbon sales
    """
    if not call.stores.binlogs.consumers.remove(instance, name, db, table or ""):
        raise UnknownConsumer(name, f"{db}/{table}" if table else db)


def _require_log(call: Call, grant: Grant, instance: str, db: str, table: str | None) -> None:
    """Raise ``Forbidden`` if the caller is a job for which no operator registered this log."""
    call.caller.require_log(grant, instance, tuple(call.stores.binlogs.consumers.names(instance, db, table or "")))


@operation("binlog gc", "POST /v1/instances/{instance}/binlog-gc", Grant.OPERATE, Logged(once=True))
def run_binlog_gc(call: Call, instance: Instance) -> StartedWork:
    """Run binlog GC for an instance now.

    It cuts expired records, has backends delete, and prints the result. Ctrl-C stops waiting, not the run. Exit code 1:
    nothing was cut, because of its clock, a stop, or observe mode.

    Example: sexton binlog gc
    """
    deployment = call.deployment.settings.require_deployment()
    return call.start(GcRequest(deployment=deployment, instance=instance, requested_by=call.by))
