"""New records are numbered without holes, and resent records are recognised or refused."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.replication.binlog.model import Log, StoredRecord, StoreResult
from sexton.replication.binlog.numbering import LogStates, NumberedRecords, judge_resent, number_records
from sexton.replication.binlog.policy import INHERITED_MS
from sexton.replication.errors import OutOfOrder

NOW = 10 * INHERITED_MS
TABLES = ("orders", "clicks", "users")


def make_log(table: str = "", **fields: object) -> Log:
    """Return an enabled log."""
    return Log(instance="shop", db="sales", tbl=table, **fields)  # type: ignore[arg-type]


def make_logs(*tables: Log, **own: object) -> LogStates:
    """Return the logs of a database whose own log has the fields ``own``."""
    return LogStates(make_log(**own), {log.tbl: log for log in tables})


def number(
    logs: LogStates, *records: StoredRecord, versions: Mapping[int, Mapping[str, Mapping[str, int]]] | None = None
) -> NumberedRecords:
    """Number records; by default none of them created versions."""
    return number_records(records, logs, versions or {r.commit_seq: {} for r in records}, NOW)


def make_record(seq: int, *tables: str, timestamp: int = 0, data: str = "") -> StoredRecord:
    """Return a record that names tables."""
    return StoredRecord(commit_seq=seq, tables=tables, timestamp=timestamp, data=data, type="ALTER")


def after(logs: LogStates, numbered: NumberedRecords) -> LogStates:
    """Return the logs as the rows leave them."""
    states = {log.tbl: log for log in (logs.own_log, *logs.tables.values())}
    for row in numbered.logs:
        before = states.get(row["tbl"], make_log(row["tbl"], enabled=False, starts_after=row["starts_after"]))
        changed = {column: row[column] for column in ("records", "bytes", "last_seq", "last_ts")}
        states[row["tbl"]] = before.model_copy(update=changed | {"skipped": max(before.skipped, row["skipped"])})
    return LogStates(states.pop(""), states)


def listed(numbered: NumberedRecords, *columns: str) -> list[tuple[object, ...]]:
    """Return these columns of the records as the logs of tables list them."""
    return [tuple(row[column] for column in ("tbl", *columns)) for row in numbered.table_records]


def test_positions_continue_each_log() -> None:
    logs = make_logs(make_log("orders", records=2, bytes=20, enabled=False), records=5, bytes=50)
    numbered = number(logs, make_record(1, "orders", "clicks", data="abü"), make_record(2, "clicks", data="de"))

    positions = [(row["ordinal"], row["bytes_before"], row["bytes"]) for row in numbered.records]
    assert positions == [(6, 50, 4), (7, 54, 2)]  # bytes of UTF-8
    in_tables = listed(numbered, "seq", "ordinal", "bytes_before")
    assert in_tables == [("orders", 1, 3, 20), ("clicks", 1, 1, 0), ("clicks", 2, 2, 4)]
    own = numbered.logs[0]
    assert (own["records"], own["bytes"], own["last_seq"]) == (7, 56, 2)


def test_record_without_table_is_listed_once_under_the_database() -> None:
    numbered = number(make_logs(records=3, bytes=7), make_record(1, data="x"), make_record(2, ""))

    assert listed(numbered, "ordinal", "bytes_before") == [("", 4, 7), ("", 5, 8)]
    assert [row["ordinal"] for row in numbered.records] == [4, 5]


def test_only_logs_that_are_enabled_and_not_dropped_store() -> None:
    disabled, dropped = make_log("clicks", enabled=False), make_log("users", dropped_at=1)
    of_tables = make_logs(make_log("orders"), disabled, dropped, enabled=False)
    by_table = number(of_tables, make_record(1, *TABLES, "unknown"), make_record(2, "clicks"))
    by_database = number(make_logs(make_log("orders", dropped_at=1)), make_record(1, "orders", "clicks"))
    by_none = number(make_logs(dropped_at=1), make_record(1, "orders"))

    assert (listed(by_table, "seq"), len(by_table.records)) == ([("orders", 1)], 1)
    assert listed(by_database) == [("clicks",)]
    assert (len(by_none.records), by_none.logs[0]["last_seq"], by_none.logs[0]["records"]) == (0, 1, 0)


def test_disabled_logs_remember_the_record_they_lack() -> None:
    logs = make_logs(make_log("orders"), make_log("clicks", enabled=False), enabled=False)
    numbered = number(logs, make_record(1, "orders", "clicks"), make_record(2, "orders"))
    enabled = number(make_logs(make_log("clicks", enabled=False)), make_record(1, "clicks"))

    assert {row["tbl"]: row["skipped"] for row in numbered.logs} == {"": 2, "orders": 0, "clicks": 1}
    assert {row["tbl"]: row["skipped"] for row in enabled.logs} == {"": 0, "clicks": 0}


def test_versions_are_stored_for_tables_that_store_the_record() -> None:
    logs = make_logs(make_log("orders"), make_log("clicks", enabled=False), enabled=False)
    versions = {1: {"orders": {"p1": 3, "p2": 4}, "clicks": {"p3": 5}}}
    numbered = number(logs, make_record(1, "orders", "clicks"), versions=versions)

    rows = [(row["tbl"], row["seq"], row["part"], row["version"]) for row in numbered.versions]
    assert rows == [("orders", 1, "p1", 3), ("orders", 1, "p2", 4)]


def test_new_logs_begin_at_the_floor_of_the_database() -> None:
    numbered = number(make_logs(watermark=4, starts_after=3), make_record(9, "orders"))

    assert {row["starts_after"] for row in numbered.logs} == {4}


def test_timestamp_is_between_the_previous_one_and_now() -> None:
    for last_ts, timestamp, stored_as in (
        *((0, 0, NOW), (1, 0, NOW - INHERITED_MS), (NOW - 1, 0, NOW - 1), (1, 500, 500), (900, 500, 900)),
        *((1, NOW + 1, NOW), (NOW + 5, 500, NOW + 5)),
    ):
        numbered = number(make_logs(last_ts=last_ts), make_record(1, timestamp=timestamp))
        assert (numbered.records[0]["ts"], numbered.records[0]["sent_ts"]) == (stored_as, timestamp)
        assert numbered.logs[0]["last_ts"] == stored_as

    logs = make_logs(make_log("orders"), enabled=False)  # a record that is not stored moves the timestamp on
    numbered = number(logs, make_record(1, "clicks", timestamp=700), make_record(2, "orders", timestamp=500))
    assert [(row["seq"], row["ts"]) for row in numbered.records] == [(2, 700)]


@st.composite
def log_states(draw: st.DrawFn) -> LogStates:
    """Draw the logs of a database: each may be enabled, disabled or dropped."""

    def draw_log(table: str) -> Log:
        counts = {"records": draw(st.integers(0, 9)), "bytes": draw(st.integers(0, 99))}
        dropped_at = draw(st.none() | st.just(1))
        return make_log(table, enabled=draw(st.booleans()), dropped_at=dropped_at, **counts)

    tables = draw(st.lists(st.sampled_from(TABLES), unique=True))
    own = draw_log("").model_copy(update={"last_ts": draw(st.integers(0, 2 * NOW))})
    return LogStates(own, {table: draw_log(table) for table in tables})


@st.composite
def new_records(draw: st.DrawFn) -> list[StoredRecord]:
    """Draw records in the order of their numbers."""
    seqs = sorted(draw(st.sets(st.integers(1, 50), min_size=1, max_size=8)))
    tables = st.lists(st.sampled_from(TABLES), unique=True, max_size=3)
    timestamps, data = st.just(0) | st.integers(1, 2 * NOW), st.text(max_size=4)
    return [make_record(s, *draw(tables), timestamp=draw(timestamps), data=draw(data)) for s in seqs]


@given(log_states(), new_records())
def test_positions_have_no_holes_and_timestamps_never_fall(logs: LogStates, records: Sequence[StoredRecord]) -> None:
    numbered = number(logs, *records)
    ends = {log.tbl: (log.records, log.bytes) for log in (logs.own_log, *logs.tables.values())}
    sizes = {row["seq"]: row["bytes"] for row in numbered.records}
    in_tables = [row for row in numbered.table_records if row["tbl"]]
    for row in [row | {"tbl": ""} for row in numbered.records] + in_tables:
        count, size = ends.get(row["tbl"], (0, 0))
        assert (row["ordinal"], row["bytes_before"]) == (count + 1, size)
        ends[row["tbl"]] = (count + 1, size + sizes[row["seq"]])
    assert {row["tbl"]: (row["records"], row["bytes"]) for row in numbered.logs} == ends
    assert list(sizes) == [record.commit_seq for record in records if logs.storing(record)]
    timestamps = [logs.own_log.last_ts, *(row["ts"] for row in numbered.records)]
    assert timestamps == sorted(timestamps)
    assert max(timestamps) <= max(NOW, logs.own_log.last_ts)


@given(log_states(), new_records(), st.data())
def test_numbering_in_two_requests_equals_one(
    logs: LogStates, records: list[StoredRecord], data: st.DataObject
) -> None:
    # Tables without a row get a disabled one, which a single request does not see: give every named table a row.
    missing = {table: make_log(table, enabled=False) for table in TABLES if table not in logs.tables}
    logs = LogStates(logs.own_log, {**logs.tables, **missing})
    split = data.draw(st.integers(1, len(records)))
    first = number(logs, *records[:split])
    both = number(logs, *records)
    if split == len(records):
        assert first == both
        return
    second = number(after(logs, first), *records[split:])
    assert first.records + second.records == both.records
    assert first.table_records + second.table_records == both.table_records
    assert after(after(logs, first), second) == after(logs, both)


def test_a_resent_record_is_known_old_or_disabled() -> None:
    known = judge_resent([make_record(1, data="x")], make_logs(last_seq=2), {1: ("ALTER", "x")})

    assert known == StoreResult(known=1)
    assert judge_resent([make_record(3)], make_logs(last_seq=9, watermark=3), {}) == StoreResult(old=1)
    assert judge_resent([make_record(3)], make_logs(last_seq=9, enabled=False), {}) == StoreResult(disabled=1)


def test_a_resent_record_that_differs_or_is_too_late_is_refused() -> None:
    for stored_as in (("UPSERT", "x"), ("ALTER", "y")):
        with pytest.raises(OutOfOrder, match="with another type or data"):
            judge_resent([make_record(1, data="x")], make_logs(last_seq=2), {1: stored_as})
    with pytest.raises(OutOfOrder, match="came after 9"):
        judge_resent([make_record(4)], make_logs(last_seq=9, watermark=3), {})
    # one table that lacks the record refuses it
    logs = make_logs(make_log("orders", watermark=5), make_log("clicks", watermark=3), enabled=False, last_seq=9)
    with pytest.raises(OutOfOrder):
        judge_resent([make_record(4, "orders", "clicks")], logs, {})
    assert judge_resent([make_record(4, "orders")], logs, {}) == StoreResult(old=1)
