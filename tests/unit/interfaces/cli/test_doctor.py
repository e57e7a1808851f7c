"""The doctor reports problems of binlogs and replicas, and warns while requests to flush are not signed."""

from typing import Any

from sexton.interfaces.cli.doctor.finding import Problem
from sexton.interfaces.cli.doctor.streams import InstanceFacts, examine_flushes, log_problems, replica_problems
from sexton.replication.binlog.model import LastRun, LogCounts
from sexton.replication.replicas.model import BackendStanding, RetainingReplica
from sexton.wal.model import WalSettings

NOW = 10_000_000
INTERVAL_MS = 60_000
FRESHNESS_MS = 600_000


def facts(**changes: Any) -> InstanceFacts:
    healthy = InstanceFacts(
        instance="shop",
        now=NOW,
        counts=LogCounts(databases=1, logs=1),
        last_run=LastRun(checked_at=NOW - INTERVAL_MS),
        backends=(BackendStanding(backend="b1", copies=1, reported_at=NOW, pulled_at=NOW),),
        retaining=(),
        is_stopped=False,
    )
    return healthy._replace(**changes)


def replica_states(given: InstanceFacts) -> list[str]:
    return [p.state for p in replica_problems(given, INTERVAL_MS, FRESHNESS_MS)]


def problems(**changes: Any) -> list[Problem]:
    return list(log_problems(facts(**changes), INTERVAL_MS))


def test_a_run_is_late_after_three_intervals() -> None:
    late = NOW - 3 * INTERVAL_MS
    unfinished, none = LastRun(checked_at=late - 1), LastRun(checked_at=None)

    assert problems() == problems(last_run=LastRun(checked_at=late)) == []
    assert problems(last_run=unfinished) == [Problem("WARN", "no run for 180 s: is the schedule active?")]
    assert problems(last_run=none) == [Problem("WARN", "no run yet: is the schedule active?")]
    assert problems(last_run=none, is_stopped=True) == []
    assert problems(last_run=none, counts=LogCounts(databases=1)) == []  # no log is enabled


def test_only_a_lost_consumer_fails() -> None:
    counts = LogCounts(databases=1, logs=1, lost=1, waiting=2)

    bad = problems(counts=counts, last_run=LastRun(checked_at=NOW, refused="x"))

    assert [problem.state for problem in bad] == ["FAIL", "WARN", "WARN"]


STANDINGS: list[tuple[list[str], dict[str, Any]]] = [
    (["WARN"], {"copies": 1, "reported_at": NOW - FRESHNESS_MS, "pulled_at": NOW}),
    ([], {"copies": 1, "reported_at": NOW - FRESHNESS_MS + 1, "pulled_at": NOW}),
    ([], {"copies": 0, "reported_at": None, "pulled_at": NOW}),
    (["WARN"], {"behind": 1, "pulled_at": NOW - 3 * INTERVAL_MS}),
    ([], {"behind": 1, "pulled_at": NOW - 3 * INTERVAL_MS + 1}),
    ([], {"behind": 0, "pulled_at": None}),
    (["WARN"], {"problems": 1, "problem": "x"}),
    (["FAIL"], {"problems": 2, "quarantined": 1, "problem": "x"}),
    (["WARN"], {"bad": 1}),
    (["WARN"], {"by_limit": 1}),
]


def test_a_backend_is_judged_by_its_figures() -> None:
    assert replica_states(facts()) == []
    for states, standing in STANDINGS:
        assert replica_states(facts(backends=(BackendStanding(backend="b1", **standing),))) == states, standing


def test_a_tablet_fails_only_if_none_of_its_replicas_counts() -> None:
    for backend, states in (("", ["FAIL"]), ("b1", [])):
        assert replica_states(facts(retaining=(RetainingReplica(backend=backend, copies=1),))) == states


def test_doctor_warns_of_unsigned_requests_to_flush() -> None:
    [finding] = examine_flushes(WalSettings())

    assert (finding.state, finding.todo[:20]) == ("WARN", "set wal.flush_secret")
    for settings in ({"flush_secret": "s" * 32}, {"flushes": False}, {"flushes_loopback": True}):
        assert list(examine_flushes(WalSettings.model_validate(settings))) == []
