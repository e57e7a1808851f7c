"""The doctor reports problems of binlogs and replicas, and warns while requests to flush are not signed."""

from typing import Any

import pytest

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


def test_a_healthy_instance_has_no_problem() -> None:
    assert list(log_problems(facts(), INTERVAL_MS)) == []
    assert replica_states(facts()) == []


@pytest.mark.parametrize(
    ("checked_at", "is_stopped", "problems"),
    [
        (NOW - 3 * INTERVAL_MS, False, []),
        (NOW - 3 * INTERVAL_MS - 1, False, [Problem("WARN", "no run for 180 s: is the schedule active?")]),
        (None, False, [Problem("WARN", "no run yet: is the schedule active?")]),
        (None, True, []),
    ],
)
def test_a_run_is_late_after_three_intervals(checked_at: int | None, is_stopped: bool, problems: list[Problem]) -> None:
    late = facts(last_run=LastRun(checked_at=checked_at), is_stopped=is_stopped)

    assert list(log_problems(late, INTERVAL_MS)) == problems


def test_no_run_is_expected_without_an_enabled_log() -> None:
    assert list(log_problems(facts(counts=LogCounts(databases=1), last_run=LastRun()), INTERVAL_MS)) == []


def test_only_a_lost_consumer_fails() -> None:
    bad = facts(counts=LogCounts(databases=1, logs=1, lost=1, waiting=2), last_run=LastRun(checked_at=NOW, refused="x"))

    assert [p.state for p in log_problems(bad, INTERVAL_MS)] == ["FAIL", "WARN", "WARN"]


@pytest.mark.parametrize(
    ("standing", "states"),
    [
        ({"copies": 1, "reported_at": NOW - FRESHNESS_MS, "pulled_at": NOW}, ["WARN"]),
        ({"copies": 1, "reported_at": NOW - FRESHNESS_MS + 1, "pulled_at": NOW}, []),
        ({"copies": 0, "reported_at": None, "pulled_at": NOW}, []),
        ({"behind": 1, "pulled_at": NOW - 3 * INTERVAL_MS}, ["WARN"]),
        ({"behind": 1, "pulled_at": NOW - 3 * INTERVAL_MS + 1}, []),
        ({"behind": 0, "pulled_at": None}, []),
        ({"problems": 1, "problem": "x"}, ["WARN"]),
        ({"problems": 2, "quarantined": 1, "problem": "x"}, ["FAIL"]),
        ({"bad": 1}, ["WARN"]),
        ({"by_limit": 1}, ["WARN"]),
    ],
)
def test_a_backend_is_judged_by_its_figures(standing: dict[str, Any], states: list[str]) -> None:
    assert replica_states(facts(backends=(BackendStanding(backend="b1", **standing),))) == states


@pytest.mark.parametrize(("backend", "states"), [("", ["FAIL"]), ("b1", [])])
def test_a_tablet_fails_only_if_none_of_its_replicas_counts(backend: str, states: list[str]) -> None:
    assert replica_states(facts(retaining=(RetainingReplica(backend=backend, copies=1),))) == states


def test_doctor_warns_of_unsigned_requests_to_flush() -> None:
    [finding] = examine_flushes(WalSettings())

    assert (finding.state, finding.todo[:20]) == ("WARN", "set wal.flush_secret")


@pytest.mark.parametrize("settings", [{"flush_secret": "s" * 32}, {"flushes": False}, {"flushes_loopback": True}])
def test_doctor_is_silent_where_nothing_is_to_do(settings: dict[str, object]) -> None:
    assert list(examine_flushes(WalSettings.model_validate(settings))) == []
