"""Binlog GC decides which records have expired, how far a log is cut, and when the clock forbids a cut."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import BadInput
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import (
    MAX_COMMIT_SEQ,
    BinlogSettings,
    Consumer,
    Cut,
    Log,
    RetentionBounds,
    StoredRecord,
)

NOW = 10_000_000_000
SETTINGS = BinlogSettings()


def make_log(**fields: object) -> Log:
    """Return a log."""
    return Log(instance="shop", db="sales", **fields)  # type: ignore[arg-type]


def make_consumer(name: str, acked: int = 0, **fields: object) -> Consumer:
    """Return a consumer."""
    return Consumer(instance="shop", name=name, db="sales", acked=acked, **fields)  # type: ignore[arg-type]


def test_limits_become_bounds() -> None:
    log = make_log(ttl_seconds=10, max_history_nums=3, max_bytes=4, records=5, bytes=50)
    bounds = policy.retention_bounds(log, NOW)

    assert (bounds.after_ts, bounds.after_n, bounds.from_byte) == (NOW - 10_000, 2, 46)
    assert policy.retention_bounds(make_log(records=5, bytes=5), NOW) == RetentionBounds()


def test_a_consumer_is_silent_from_the_hold_limit_on() -> None:
    limit = NOW - SETTINGS.hold_limit_seconds * 1000
    silent, active = make_consumer("a", seen_at=limit), make_consumer("b", seen_at=limit + 1)

    assert policy.silent_consumers([silent, active, make_consumer("c", lost_at=1)], NOW, SETTINGS) == [silent]


SLOW = [make_consumer("a", 5), make_consumer("a", 6), make_consumer("b", 3), make_consumer("c", 7)]
CUTS = [
    (make_log(records=10), (7, 7, []), Cut(seq=7)),
    (make_log(records=10), (7, 7, SLOW), Cut(seq=3, held={"a": 5, "b": 3})),
    (make_log(records=10, watermark=4), (7, 3, [make_consumer("a", 2)]), Cut(seq=4, held={"a": 2})),
    (make_log(records=2_000, watermark=5), (1_900, 1_600, []), Cut(seq=5, awaiting_seq=1_900)),
    (make_log(records=2_000, approved=1_900), (1_900, 1_600, []), Cut(seq=1_900)),
    (make_log(records=2_000, approved=1_500), (1_900, 1_600, []), Cut(seq=1_500)),  # only the approved part
]
"""Log, its last expired record with the number of expired ones and the consumers, what is cut."""


def test_expired_records_are_cut_as_far_as_nothing_blocks() -> None:
    for log, (expired, count, consumers), cut in CUTS:
        assert policy.decide_cut(log, expired, count, consumers, SETTINGS) == cut
    # records that a consumer blocks count for the limit, too
    blocked = policy.decide_cut(make_log(records=2_000), 1_900, 1_600, [make_consumer("a", 10)], SETTINGS)
    assert blocked.awaiting_seq == 1_900


def test_approval_is_needed_above_both_limits() -> None:
    for expired, records, needed in ((1_000, 1_000, False), (1_001, 2_002, False), (1_001, 2_001, True)):
        assert policy.needs_approval(make_log(records=records), 9, expired, SETTINGS) is needed
    fractions = {None: 0.5, SETTINGS.interval_seconds: 1.0, 86_400: 0.5}  # a short TTL allows more
    assert {ttl: policy.max_fraction(make_log(ttl_seconds=ttl), SETTINGS) for ttl in fractions} == fractions


def test_a_clock_that_moved_by_two_intervals_is_accepted() -> None:
    for moved in (0, 1, 626_000, -626_000):
        assert policy.clock_problem(NOW, NOW + moved, SETTINGS) == ""
    assert policy.clock_problem(None, NOW, SETTINGS) == ""
    assert policy.clock_problem(NOW, NOW + 300_000, BinlogSettings(interval_seconds=1)) == ""
    for moved, way in ((626_001, "forward"), (-626_001, "back")):
        assert f"moved {way} by 626 s" in policy.clock_problem(NOW, NOW + moved, SETTINGS)


def test_retry_begins_within_half_an_interval() -> None:
    half = SETTINGS.interval_seconds * 500

    assert policy.is_retry(NOW, NOW + half - 1, SETTINGS)
    for before, now in ((NOW, NOW + half), (NOW, NOW - 1), (None, NOW)):
        assert not policy.is_retry(before, now, SETTINGS)


def upsert(*partitions: object) -> StoredRecord:
    """Return an UPSERT of one table."""
    return StoredRecord(commit_seq=1, data=json.dumps({"tableRecords": {"orders": {"partitionRecords": partitions}}}))


WRONG_PARTITIONS = (
    {"partitionId": True, "version": 1},
    {"partitionId": 1.5, "version": 1},
    {"partitionId": "", "version": 1},
    {"partitionId": "p" * 129, "version": 1},
    {"partitionId": "a\x00b", "version": 1},
    {"partitionId": "\ud800", "version": 1},
    {"partitionId": "p1", "version": True},
    {"partitionId": "p1", "version": -1},
    {"partitionId": "p1", "version": MAX_COMMIT_SEQ},
    {"partitionId": "p1"},
    7,
)


def test_highest_version_of_a_partition_counts() -> None:
    record = upsert(*({"partitionId": 1, "version": version} for version in (4, 6, 5)))

    assert policy.parse_versions(record) == {"orders": {"1": 6}}
    assert policy.parse_versions(StoredRecord(commit_seq=1, type="ALTER", data="not JSON")) == {}


def test_wrong_upsert_or_number_is_refused() -> None:
    for partition in WRONG_PARTITIONS:
        with pytest.raises(BadInput, match="record 1, an UPSERT: its data is not"):
            policy.parse_versions(upsert(partition))
    for data in ("", "[]", "{}", '{"tableRecords": []}', '{"tableRecords": {"t": {}}}'):
        with pytest.raises(BadInput, match="record 1, an UPSERT: its data is not"):
            policy.parse_versions(StoredRecord(commit_seq=1, data=data))
    for number in ({"commit_seq": 0}, {"commit_seq": MAX_COMMIT_SEQ}, {"commit_seq": 1, "timestamp": 2**53 + 1}):
        with pytest.raises(BadInput):
            policy.parse_versions(StoredRecord(**number))


@given(st.text())
def test_any_data_is_parsed_or_refused(data: str) -> None:
    with suppress(BadInput):
        policy.parse_versions(StoredRecord(commit_seq=1, data=data))


def test_ttl_is_seconds_or_forever() -> None:
    seconds = {"forever": None, 0: 0, policy.LONGEST_TTL: policy.LONGEST_TTL}

    assert {value: policy.parse_ttl(value) for value in seconds} == seconds
    for wrong in (-1, policy.LONGEST_TTL + 1, True, "7d"):
        with pytest.raises(BadInput, match="a TTL is 0 to"):
            policy.parse_ttl(wrong)
