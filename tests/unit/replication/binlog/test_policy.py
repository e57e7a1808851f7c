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


class TestRetentionBounds:
    def test_log_without_limits_retains_all(self) -> None:
        assert policy.retention_bounds(make_log(records=5, bytes=5), NOW) == RetentionBounds()

    def test_limits_become_bounds(self) -> None:
        log = make_log(ttl_seconds=10, max_history_nums=3, max_bytes=4, records=5, bytes=50)
        bounds = policy.retention_bounds(log, NOW)
        assert (bounds.after_ts, bounds.after_n, bounds.from_byte) == (NOW - 10_000, 2, 46)


class TestSilentConsumers:
    def test_hold_limit_is_inclusive(self) -> None:
        limit = NOW - SETTINGS.hold_limit_seconds * 1000
        silent, active = make_consumer("a", seen_at=limit), make_consumer("b", seen_at=limit + 1)
        assert policy.silent_consumers([silent, active], NOW, SETTINGS) == [silent]

    def test_lost_consumer_is_not_returned_again(self) -> None:
        assert policy.silent_consumers([make_consumer("a", lost_at=1)], NOW, SETTINGS) == []


class TestDecideCut:
    def test_expired_records_are_cut(self) -> None:
        assert policy.decide_cut(make_log(records=10), 7, 7, [], SETTINGS) == Cut(seq=7)

    def test_slowest_consumer_blocks_the_rest(self) -> None:
        consumers = [make_consumer("a", 5), make_consumer("a", 6), make_consumer("b", 3), make_consumer("c", 7)]
        cut = policy.decide_cut(make_log(records=10), 7, 7, consumers, SETTINGS)
        assert cut == Cut(seq=3, held={"a": 5, "b": 3})

    def test_consumer_below_the_watermark_blocks_all(self) -> None:
        cut = policy.decide_cut(make_log(records=10, watermark=4), 7, 3, [make_consumer("a", 2)], SETTINGS)
        assert cut == Cut(seq=4, held={"a": 2})

    def test_large_cut_waits_for_approval(self) -> None:
        log = make_log(records=2_000, watermark=5)
        assert policy.decide_cut(log, 1_900, 1_600, [], SETTINGS) == Cut(seq=5, awaiting_seq=1_900)

    def test_approved_cut_is_made(self) -> None:
        log = make_log(records=2_000, approved=1_900)
        assert policy.decide_cut(log, 1_900, 1_600, [], SETTINGS) == Cut(seq=1_900)

    def test_only_the_approved_part_is_cut(self) -> None:
        log = make_log(records=2_000, approved=1_500)
        assert policy.decide_cut(log, 1_900, 1_600, [], SETTINGS) == Cut(seq=1_500)

    def test_records_that_a_consumer_blocks_count_for_the_limit(self) -> None:
        log, slow = make_log(records=2_000), make_consumer("a", 10)
        assert policy.decide_cut(log, 1_900, 1_600, [slow], SETTINGS).awaiting_seq == 1_900


@pytest.mark.parametrize(
    ("expired_records", "records", "needed"), [(1_000, 1_000, False), (1_001, 2_002, False), (1_001, 2_001, True)]
)
def test_approval_is_needed_above_both_limits(expired_records: int, records: int, needed: bool) -> None:
    assert policy.needs_approval(make_log(records=records), 9, expired_records, SETTINGS) is needed


def test_short_ttl_allows_a_larger_fraction() -> None:
    assert policy.max_fraction(make_log(), SETTINGS) == 0.5
    assert policy.max_fraction(make_log(ttl_seconds=SETTINGS.interval_seconds), SETTINGS) == 1.0
    assert policy.max_fraction(make_log(ttl_seconds=86_400), SETTINGS) == 0.5


class TestClock:
    @pytest.mark.parametrize("moved", [0, 1, 626_000, -626_000])
    def test_two_intervals_are_accepted(self, moved: int) -> None:
        assert policy.clock_problem(NOW, NOW + moved, SETTINGS) == ""

    @pytest.mark.parametrize(("moved", "way"), [(626_001, "forward"), (-626_001, "back")])
    def test_more_is_refused(self, moved: int, way: str) -> None:
        assert f"moved {way} by 626 s" in policy.clock_problem(NOW, NOW + moved, SETTINGS)

    def test_first_run_is_accepted(self) -> None:
        assert policy.clock_problem(None, NOW, SETTINGS) == ""

    def test_short_interval_does_not_shorten_the_slack(self) -> None:
        assert policy.clock_problem(NOW, NOW + 300_000, BinlogSettings(interval_seconds=1)) == ""

    def test_retry_begins_within_half_an_interval(self) -> None:
        half = SETTINGS.interval_seconds * 500
        assert policy.is_retry(NOW, NOW + half - 1, SETTINGS)
        assert not policy.is_retry(NOW, NOW + half, SETTINGS)
        assert not policy.is_retry(NOW, NOW - 1, SETTINGS)
        assert not policy.is_retry(None, NOW, SETTINGS)


def upsert(*partitions: object) -> StoredRecord:
    """Return an UPSERT of one table."""
    return StoredRecord(commit_seq=1, data=json.dumps({"tableRecords": {"orders": {"partitionRecords": partitions}}}))


class TestParseVersions:
    def test_highest_version_of_a_partition_counts(self) -> None:
        record = upsert(*({"partitionId": 1, "version": version} for version in (4, 6, 5)))
        assert policy.parse_versions(record) == {"orders": {"1": 6}}

    def test_other_records_create_no_versions(self) -> None:
        assert policy.parse_versions(StoredRecord(commit_seq=1, type="ALTER", data="not JSON")) == {}

    @pytest.mark.parametrize(
        "partition",
        [
            {"partitionId": True, "version": 1},
            {"partitionId": 1.5, "version": 1},
            {"partitionId": "", "version": 1},
            {"partitionId": "p" * 129, "version": 1},
            {"partitionId": "p1", "version": True},
            {"partitionId": "p1", "version": -1},
            {"partitionId": "p1", "version": MAX_COMMIT_SEQ},
            {"partitionId": "p1"},
            7,
        ],
    )
    def test_wrong_upsert_is_refused(self, partition: object) -> None:
        with pytest.raises(BadInput, match="record 1, an UPSERT: its data is not"):
            policy.parse_versions(upsert(partition))

    @pytest.mark.parametrize(
        "record",
        [
            StoredRecord(commit_seq=0),
            StoredRecord(commit_seq=MAX_COMMIT_SEQ),
            StoredRecord(commit_seq=1, timestamp=2**53 + 1),
        ],
    )
    def test_number_out_of_range_is_refused(self, record: StoredRecord) -> None:
        with pytest.raises(BadInput):
            policy.parse_versions(record)

    @given(st.text())
    def test_any_data_is_parsed_or_refused(self, data: str) -> None:
        with suppress(BadInput):
            policy.parse_versions(StoredRecord(commit_seq=1, data=data))


@pytest.mark.parametrize(("value", "seconds"), [("forever", None), (0, 0), (policy.LONGEST_TTL, policy.LONGEST_TTL)])
def test_ttl_is_seconds_or_forever(value: int | str, seconds: int | None) -> None:
    assert policy.parse_ttl(value) == seconds


@pytest.mark.parametrize("value", [-1, policy.LONGEST_TTL + 1, True, "7d"])
def test_wrong_ttl_is_refused(value: int | str) -> None:
    with pytest.raises(BadInput, match="a TTL is 0 to"):
        policy.parse_ttl(value)
