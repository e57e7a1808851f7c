"""A report determines the state of a replica, and the replicas of a tablet the versions it still needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import BadInput
from sexton.replication.agent.model import MAX_VERSION
from sexton.replication.journal.model import ReplicaOutcome, ReportKind
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import Replica, ReplicaSettings, TabletReport

NOW = 1_000_000
SETTINGS = ReplicaSettings()
PERSISTED = NOW - SETTINGS.gap_persist_seconds * 1000


def make_replica(**fields: object) -> Replica:
    """Return a fresh replica of tablet t1 on backend b1."""
    key = {"instance": "shop", "uid": "u1", "backend": "b1", "tablet": "t1", "db": "sales", "tbl": "orders"}
    return Replica(**{**key, "part": "p1", "fresh_until": NOW + 1, **fields})  # type: ignore[arg-type]


def report(before: Replica, **fields: object) -> policy.Judged:
    """Return a replica after a report."""
    versions = policy.reported_versions(TabletReport(uid="u1", **fields))  # type: ignore[arg-type]
    return policy.apply_report(before, versions, NOW, SETTINGS)


def kind(judged: policy.Judged) -> str:
    """Return what followers are told of a replica; empty: nothing."""
    return judged.outcome.kind if judged.outcome else ""


def test_ranges_version_and_miss_give_the_gap() -> None:
    hole = policy.ReportedVersions(4, 5, 9, bad=False, gap=True, crossing=False)
    miss = policy.reported_versions(TabletReport(uid="u1", version=4, version_miss=True))
    unshown = policy.reported_versions(TabletReport(uid="u1", ranges=((0, 4),), version_miss=True))

    assert policy.reported_versions(TabletReport(uid="u1", ranges=((0, 4), (6, 9)))) == hole
    assert policy.reported_versions(TabletReport(uid="u1", ranges=((0, 4),), version=9)) == hole
    assert (miss.gap, miss.unknown, miss.highest) == (True, True, 4)
    assert (unshown.gap, unshown.unknown) == (True, True)


def test_replica_without_versions_is_bad_impossible_ones_refused() -> None:
    assert policy.reported_versions(TabletReport(uid="u1")).bad
    assert policy.reported_versions(TabletReport(uid="u1", ranges=(), version=9)).bad
    for version in (-2, MAX_VERSION + 1):
        with pytest.raises(BadInput, match="is not a version"):
            policy.reported_versions(TabletReport.model_construct(uid="u1", version=version))


class TestApplyReport:
    def test_another_schema_is_bad_until_it_is_reported_right(self) -> None:
        placed = make_replica(schema_hash=5, continuous_version=9, needs=10)
        other = report(placed, version=9, schema_hash=7)
        unsaid = report(other.replica, version=9)
        right = report(unsaid.replica, version=9, schema_hash=5)
        unplaced = report(make_replica(), version=9, schema_hash=7)
        given_up = report(make_replica(schema_hash=5, full_copy="lost"), version=9, schema_hash=7)

        assert [(j.replica.bad, j.replica.needs, kind(j)) for j in (other, unsaid, right, unplaced)] == [
            (True, 0, "BAD"),
            (True, 0, ""),
            (False, 10, "HEALTHY"),
            (False, 10, ""),
        ]
        assert given_up.replica.full_copy == "lost"

    def test_new_version_is_accepted_and_a_gap_not_marked_for_repair(self) -> None:
        judged = report(make_replica(continuous_version=3, succeeded=3), version=5)
        assert (judged.replica.continuous_version, judged.replica.needs, judged.outcome) == (5, 6, None)
        gap = report(make_replica(continuous_version=3), ranges=((0, 4), (6, 9))).replica
        assert (gap.gap_since, gap.needs, gap.failed) == (NOW, 5, -1)
        other = report(make_replica(continuous_version=3, needs=4, gap_since=PERSISTED), ranges=((0, 4), (6, 9)))
        assert other.replica.gap_since == NOW  # another gap restarts its time

    def test_lasting_gap_is_marked_for_repair(self) -> None:
        before = make_replica(continuous_version=4, succeeded=4, needs=5, gap_since=PERSISTED)
        judged = report(before, ranges=((0, 4), (6, 9)))
        assert (judged.replica.gap_since, judged.replica.failed) == (PERSISTED, 5)
        assert judged.outcome == ReplicaOutcome(tablet="t1", kind=ReportKind.MISSING_VERSION, failed=5)

    def test_lower_version_than_before_is_a_gap(self) -> None:
        judged = report(make_replica(continuous_version=8, succeeded=8), version=5)
        assert (judged.replica.continuous_version, judged.replica.needs, judged.replica.gap_since) == (8, 6, NOW)

    def test_closed_gap_is_healthy(self) -> None:
        before = make_replica(continuous_version=4, succeeded=4, failed=5, needs=5, gap_since=PERSISTED)
        judged = report(before, version=9)
        assert (judged.replica.failed, judged.replica.gap_since) == (-1, None)
        assert kind(judged) == ReportKind.HEALTHY

    def test_whole_replica_below_the_failed_version_is_healthy(self) -> None:
        before = make_replica(continuous_version=4, succeeded=4, failed=9, needs=5)
        judged = report(before, version=4)
        assert judged.replica.failed == -1
        assert kind(judged) == ReportKind.HEALTHY

    def test_bad_replica_keeps_its_versions_and_is_reported_once(self) -> None:
        judged = report(make_replica(continuous_version=4, succeeded=4), bad=True, version=9)
        assert (judged.replica.continuous_version, judged.replica.bad_since, judged.replica.needs) == (4, NOW, 0)
        assert kind(judged) == ReportKind.BAD
        again = report(make_replica(bad_since=5), bad=True)
        assert (again.replica.bad_since, again.outcome) == (5, None)

    def test_marked_replica_with_another_gap_stays_marked(self) -> None:
        before = make_replica(continuous_version=4, succeeded=4, failed=5, needs=5, gap_since=PERSISTED)
        judged = report(before, ranges=((0, 6), (8, 9)))
        assert judged.outcome == ReplicaOutcome(tablet="t1", kind=ReportKind.MISSING_VERSION, failed=7)
        assert judged.replica.gap_since == NOW

    def test_c18_a_miss_without_ranges_needs_what_was_not_continuous(self) -> None:
        cases: list[tuple[dict[str, int], int, int]] = [
            ({}, 3, 0),  # nothing was known
            ({"continuous_version": 1, "needs": 2}, 3, 1),
            ({"continuous_version": 9, "needs": 10}, 3, 0),  # the gap is below what was known
            ({"continuous_version": 2, "needs": 3}, 3, 0),
            ({"continuous_version": 9, "needs": 5, "gap_since": NOW}, 12, 5),  # a lower gap was known
        ]
        for before, version, needs in cases:
            judged = report(make_replica(**before), version=version, version_miss=True)
            assert (judged.replica.needs, judged.replica.gap_since, judged.outcome) == (needs, NOW, None), before
            assert judged.replica.continuous_version == before.get("continuous_version", -1)
            again = report(judged.replica, version=version, version_miss=True).replica
            assert (again.needs, again.gap_since) == (needs, NOW)

    def test_c19_a_bad_replica_with_a_miss_stays_bad(self) -> None:
        reports: list[dict[str, object]] = [
            {"version": 9, "version_miss": True},
            {"ranges": ((0, 4), (6, 9))},
            {"ranges": ((0, 3),)},  # lost versions
        ]
        for fields in reports:
            before = make_replica(continuous_version=4, failed=5, gap_since=PERSISTED, bad_since=5)
            judged = report(report(before, **fields).replica, **fields)
            assert (judged.replica.bad_since, judged.replica.needs, judged.outcome) == (5, 0, None), fields
            healed = report(judged.replica, ranges=((0, 9),))
            assert (healed.replica.bad, kind(healed)) == (False, ReportKind.HEALTHY)

    def test_full_copy_counts_again_with_all_deleted_versions(self) -> None:
        for version, counts in ((6, False), (7, False), (8, True)):
            before = make_replica(full_copy="lost", full_copy_at=5, full_copy_until=7, gone=8)
            after = report(before, version=version).replica
            assert (after.full_copy == "", after.full_copy_at is None) == (counts, counts)


Versions = st.sets(st.integers(0, 12), min_size=1)


@given(st.lists(st.tuples(Versions, st.sampled_from(["seed", "ranges", "bad"]), st.integers(0, 90)), max_size=12))
def test_no_report_opens_the_gate_or_heals_over_a_miss(reports: list[tuple[set[int], str, int]]) -> None:
    """A replica receives versions in any order, and loses none; each report is in another form, seconds later."""
    replica, has, now = make_replica(), set[int](), NOW
    for received, form, seconds in reports:
        has, now = has | received, now + seconds * 1000
        missing = min(set(range(14)) - has)
        is_whole = missing > max(has)
        sent = {
            "seed": TabletReport(uid="u1", version=max(has), version_miss=not is_whole),
            "ranges": TabletReport(uid="u1", ranges=tuple((v, v) for v in has)),
            "bad": TabletReport(uid="u1", bad=True),
        }[form]
        judged = policy.apply_report(replica, policy.reported_versions(sent), now, SETTINGS)
        assert judged.replica.needs <= missing
        assert judged.replica.continuous_version < missing
        assert kind(judged) != ReportKind.HEALTHY or is_whole
        replica = judged.replica


def test_slowest_replica_decides_and_what_is_unknown_retains_all() -> None:
    slow, fast = make_replica(needs=4), make_replica(needs=9, backend="b2")
    lost = make_replica(needs=1, full_copy="lost")

    assert policy.lowest_needed_version([fast, slow], NOW) == (4, slow)
    assert policy.lowest_needed_version([lost, fast], NOW) == (9, fast)  # it has only a full copy to come
    assert policy.lowest_needed_version([lost], NOW) == (0, None)  # none counts: nothing may be deleted
    assert policy.lowest_needed_version([make_replica(dropped=True)], NOW) is None
    for fields in ({"bad_since": 1}, {"fresh_until": NOW}):
        assert policy.need(make_replica(needs=4, **fields), NOW) == 0


def test_every_fault_is_named() -> None:
    replica = make_replica(bad_since=1, gap_since=1, needs=4, failed=4, crossing=True, fresh_until=NOW)

    kinds = [outcome.kind for _, outcome in policy.standing(replica)]  # what a snapshot has
    assert kinds == [ReportKind.MISSING_VERSION, ReportKind.BAD]
    assert policy.describe_faults(replica, NOW) == (
        "bad, version 4 is missing, to be repaired, ranges of versions cross, no fresh report"
    )
    assert (list(policy.standing(make_replica())), policy.describe_faults(make_replica(), NOW)) == ([], "")
