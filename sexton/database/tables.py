"""The tables as queries see them: ``sexton.mark`` on PostgreSQL, ``sexton_mark`` in the owner's own file on SQLite.

Columns and types only; constraints, defaults, triggers and functions are in ``migrations/versions/*.sql``, and a test
compares the two. Instants are integers in Python (milliseconds since 1970) on both databases.
"""

import datetime as dt
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, DateTime, Double, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


class Instant(TypeDecorator[int]):
    """Milliseconds since 1970 in Python; timestamptz on PostgreSQL, so that people can read it, integer on SQLite."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(DateTime(timezone=True) if dialect.name == "postgresql" else BigInteger())

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "postgresql":
            return value
        return _EPOCH + value * _MILLISECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        if value is None or dialect.name != "postgresql":
            return value  # type: ignore[no-any-return]
        return (value - _EPOCH) // _MILLISECOND  # type: ignore[no-any-return]


Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


@dataclass(frozen=True)
class Tables:
    """Every table of one database."""

    clock: Table
    instance: Table
    instance_guard: Table
    vault: Table
    mark: Table
    mark_history: Table
    mark_file: Table
    lease: Table
    plan: Table
    round: Table
    batch: Table
    tally: Table
    control: Table
    hold: Table
    counter: Table
    pace: Table
    pace_share: Table
    pace_cap: Table
    protection: Table
    protection_item: Table
    protection_chunk: Table
    token: Table
    call: Table
    check_run: Table
    finding: Table
    wal_topic: Table
    wal_region: Table
    wal_pin: Table
    wal_purge: Table
    wal_node: Table
    wal_log: Table
    wal_entry: Table
    journal_head: Table
    journal: Table
    journal_follower: Table
    binlog_round: Table
    binlog_log: Table
    binlog: Table
    binlog_of: Table
    binlog_part: Table
    binlog_fold: Table
    binlog_consumer: Table
    backend: Table
    replica: Table
    api_user: Table
    login_failure: Table

    def all(self) -> list[Table]:
        """Return the tables in order of their names in this class."""
        return list(vars(self).values())


@cache
def build(dialect: str) -> Tables:
    """Return the tables as they are named on ``postgresql`` or ``sqlite``."""
    metadata = MetaData(schema="sexton" if dialect == "postgresql" else None)
    prefix = "" if dialect == "postgresql" else "sexton_"

    def table(name: str, **columns: Any) -> Table:
        cols: list[Column[Any]] = [Column(n.rstrip("_"), t, primary_key=n.endswith("_")) for n, t in columns.items()]
        return Table(prefix + name, metadata, *cols)

    number, text, instant = BigInteger(), Text(), Instant()
    # A trailing underscore marks a column of the primary key.
    serial = BigInteger().with_variant(Integer(), "sqlite")
    return Tables(
        clock=table("clock", one_=Boolean(), deployment=text, offset_seconds=number),
        instance=table(
            "instance",
            **{"id_": text, "mode": text, "created_at": instant, "enabled_at": instant},
            **{"turn_at": instant, "retry_at": instant, "failures": number, "last_success_at": instant},
            **{"owner": text, "retentions": Json, "watermark": number, "watermark_at": instant},
            **{"key_pattern": text, "check_base": number},
        ),
        instance_guard=table("instance_guard", instance_=text, seq=number),
        vault=table(
            "vault",
            **{"instance_": text, "name_": text, "uuid": text, "kind": text, "location": text, "prefix": text},
            **{"endpoint": text, "region": text, "profile": text, "deployment": text, "created_at": instant},
            **{"versions": text, "conditional": Boolean(), "probe": Json},
        ),
        mark=table(
            "mark",
            **{"instance_": text, "kind_": text, "id_": text, "state": text},
            **{"marked_at": instant, "expires_at": instant, "ages_from": instant},
            **{"parent_kind": text, "parent_id": text, "vault": text, "prefix": text, "keys": Json, "bytes": number},
            **{"owner_txn": text, "lease_epoch": number, "batch": number, "claimed_at": instant, "swept_at": instant},
            **{"objects_gone": number, "bytes_gone": number},
            **{"quarantined_reason": text, "failures": number, "last_error": text, "next_try_at": instant},
            **{"lacking": text, "absorbed": Boolean(), "claimed_in": number, "etags": Json},
        ),
        mark_history=table(
            "mark_history",
            **{"instance_": text, "kind_": text, "id_": text, "parent_kind": text, "parent_id": text, "vault": text},
            **{"prefix": text, "keys": Json, "objects": number, "bytes": number, "marked_at": instant},
            **{"claimed_at": instant, "gone_at": instant, "batch": number, "round": number, "discarded": text},
            **{"absorbed": Boolean()},
        ),
        mark_file=table(
            "mark_file",
            **{"batch_": number, "seq_": number, "instance": text, "kind": text, "id": text, "vault": text},
            **{"key": text, "bytes": number, "etag": text, "outcome": text, "reason": text},
        ),
        lease=table(
            "lease",
            **{"instance_": text, "job_": text, "state": text, "owner": text, "epoch": number},
            **{"acquired_at": instant, "expires_at": instant},
        ),
        plan=table(
            "plan",
            **{"id_": serial, "instance": text, "created_at": instant, "state": text, "planned_by": text},
            **{"policy_version": text, "body": Json},
            **{"awaits": text, "expires_at": instant, "approved_by": text, "approved_at": instant},
            **{"rejected": Boolean()},
        ),
        round=table(
            "round",
            **{"id_": serial, "instance": text, "run_id": text, "plan": number, "state": text},
            **{"started_at": instant, "ended_at": instant, "report": Json},
            **{"waiting": text, "waiting_since": instant},
        ),
        batch=table(
            "batch",
            **{"id_": serial, "instance": text, "round": number, "kind": text, "number": number, "first": text},
            **{
                "last": text,
                "lease_epoch": number,
                "attempt": number,
                "claimed": number,
                "state": text,
                "receipt": Json,
                "opens": number,
                "limited": number,
                "claimed_at": instant,
            },
        ),
        tally=table(
            "tally",
            **{"round_": number, "kind_": text, "vault_": text, "claimed": number, "removed": number},
            **{"deleted": number, "absent": number, "hidden": number, "failed": number},
            **{"bytes_freed": number, "bytes_estimated": number, "bytes_hidden": number},
        ),
        control=table("control", kind_=text, name_=text, reason=text, set_by=text, since=instant),
        hold=table(
            "hold",
            **{"id_": serial, "instance": text, "scope": text, "mark_kind": text, "mark_id": text, "vault": text},
            **{"prefix": text, "reason": text, "placed_by": text, "placed_at": instant, "expires_at": instant},
            **{"released_at": instant},
        ),
        counter=table("counter", instance_=text, name_=text, label_=text, value=number),
        pace=table(
            "pace", place_=text, keys_per_second=number, ceiling=number, throttled_at=instant, updated_at=instant
        ),
        pace_share=table(
            "pace_share", place_=text, worker_=text, seen_at=instant, requests=number, throttled=number, keys=number
        ),
        pace_cap=table(
            "pace_cap", instance_=text, vault_=text, keys_per_second=number, reason=text, set_by=text, since=instant
        ),
        protection=table(
            "protection",
            **{"id_": serial, "instance": text, "job": text, "owner": text, "description": text, "state": text},
            **{"valid_ts": number, "registered_at": instant, "expires_at": instant, "finished_at": instant},
            **{"digest": text, "changes": number, "sizes": Json, "filter": LargeBinary(), "sealed": Json},
        ),
        protection_item=table(
            "protection_item", instance_=text, vault_=text, key_=text, prefix_=Boolean(), protection_=number
        ),
        protection_chunk=table("protection_chunk", protection_=number, number_=number, digest=text, told=Json),
        token=table(
            "token",
            **{"id_": text, "scope": text, "digest": text, "note": text, "created_at": instant, "created_by": text},
            **{"expires_at": instant, "revoked_at": instant, "revoked_by": text, "of_user": text},
        ),
        call=table(
            "call",
            **{"id_": serial, "at": instant, "who": text, "source": text, "action": text, "instance": text},
            **{"subject": text, "outcome": text, "reason": text},
        ),
        check_run=table(
            "check_run",
            **{"id_": serial, "instance": text, "run": text, "state": text, "cutoff": instant, "ended_at": instant},
            **{"evidence": Json, "lacks": Json, "asked_by": text, "progress": Json},
            **{"standing": Json},
        ),
        finding=table(
            "finding",
            **{"id_": serial, "instance": text, "type": text, "vault": text, "key": text, "expected": number},
            **{"size": number, "etag": text, "record": text, "state": text, "first_seen": instant, "seen_in": number},
            **{"proven_at": instant, "confirmed_at": instant, "said_by": text, "detail": text},
            **{"proven_in": number, "mark": text},
        ),
        wal_topic=table(
            "wal_topic",
            **{"name_": text, "kafka_id": text, "enabled": Boolean(), "mode": text, "floor": number},
            **{"log_start": number, "log_end": number, "quarantined": text, "generation": number},
            **{"map_digest": text, "mapped_at": instant, "emptied_at": instant, "entry_bytes": Double()},
            **{"weighed_at": instant, "looked_at": instant, "ok_at": instant, "fault": text, "freed": number},
            **{"blocked": Json, "seq": number},
        ),
        wal_region=table(
            "wal_region",
            **{"topic_": text, "region_": text, "epoch": number, "first": number, "keep_from": number},
            **{"marks": number, "flushed": Json, "waits": number, "waits_marks": number, "waits_flushed": Json},
            **{"source": text, "state": text},
            **{"reported_at": instant, "node": text, "releases_at": instant, "until": number},
        ),
        wal_pin=table(
            "wal_pin",
            **{"id_": text, "topic": text, "region": text, "start": number, "node": text, "kafka_id": text},
            **{"log_end": number, "opened_at": instant, "expires_at": instant},
        ),
        wal_purge=table(
            "wal_purge",
            **{"id_": serial, "topic": text, "kafka_id": text, "floor": number, "at": instant, "log_end": number},
            **{"holders": Json, "done_at": instant, "log_start": number, "freed": number},
        ),
        wal_node=table("wal_node", name_=text, url=text, seen_at=instant),
        wal_log=table(
            "wal_log",
            **{"name_": text, "id": text, "partitions": number, "compacted": Boolean(), "log_start": number},
            **{"log_end": number},
        ),
        wal_entry=table("wal_entry", topic_=text, id_=number, payload=LargeBinary()),
        journal_head=table(
            "journal_head",
            **{"instance_": text, "seq": number, "trimmed": number},
        ),
        journal=table(
            "journal",
            **{"instance_": text, "seq_": number, "op": number, "body": Json, "at": instant},
        ),
        journal_follower=table(
            "journal_follower",
            **{"instance_": text, "name_": text, "applied": number, "seen_at": instant, "lost_at": instant},
        ),
        binlog_round=table(
            "binlog_round",
            **{"instance_": text, "looked_at": instant, "ok_at": instant, "steady_since": instant, "refused": text},
            **{"cuts": number, "refusals": number},
        ),
        binlog_log=table(
            "binlog_log",
            **{"instance_": text, "db_": text, "tbl_": text, "enabled": Boolean(), "ttl_seconds": number},
            **{
                "max_bytes": number,
                "max_history_nums": number,
                "last_seq": number,
                "last_ts": number,
                "records": number,
            },
            **{"bytes": number, "gone_records": number, "gone_bytes": number, "watermark": number, "begins": number},
            **{"skipped": number, "cut_at": instant, "held": Json, "held_since": instant, "wants": number},
            **{"wants_since": instant, "approved": number, "dropped_at": instant},
        ),
        binlog=table(
            "binlog",
            **{"instance_": text, "db_": text, "seq_": number, "ts": number, "stamp": number},
            **{"type": text, "tables": Json, "data": text, "bytes": number, "n": number},
            **{"bytes_before": number},
        ),
        binlog_of=table(
            "binlog_of",
            **{"instance_": text, "db_": text, "tbl_": text, "seq_": number, "n": number},
            **{"bytes_before": number},
        ),
        binlog_part=table(
            "binlog_part",
            **{"instance_": text, "db_": text, "tbl_": text, "seq_": number, "part_": text},
            **{"version": number},
        ),
        binlog_fold=table(
            "binlog_fold",
            **{"instance_": text, "db_": text, "tbl_": text, "part_": text, "version": number},
            **{"spread": Boolean()},
        ),
        binlog_consumer=table(
            "binlog_consumer",
            **{"instance_": text, "name_": text, "db_": text, "tbl_": text, "acked": number},
            **{"since": instant, "seen_at": instant, "lost_at": instant},
        ),
        backend=table(
            "backend",
            **{"instance_": text, "name_": text, "boot": number, "sequence": number, "reported_at": instant},
            **{"pulled_at": instant, "queue_at": instant},
        ),
        replica=table(
            "replica",
            **{"instance_": text, "uid_": text, "backend_": text, "tablet": text, "db": text},
            **{"tbl": text, "part": text, "version": number, "failed": number, "succeeded": number},
            **{"needs": number, "highest": number, "bad_since": instant, "gap_since": instant, "crossing": Boolean()},
            **{"boot": number, "sequence": number, "fresh_until": instant, "row_count": number, "bytes": number},
            **{
                "full_copy": text,
                "full_copy_at": instant,
                "full_copy_until": number,
                "gone": number,
                "desired": number,
            },
            **{"granted": number, "acked": number, "problem": text, "dropped": Boolean()},
        ),
        api_user=table(
            "api_user",
            **{"name_": text, "hash": text, "scope": text, "created_at": instant, "created_by": text},
            **{"changed_at": instant, "removed_at": instant, "removed_by": text},
        ),
        login_failure=table("login_failure", source_=text, slot_=text, failures=number, last_at=instant),
    )
