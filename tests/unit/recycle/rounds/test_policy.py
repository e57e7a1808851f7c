"""Instances have schedule slots, and failed rounds are retried later."""

from typing import Any

import pytest

from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.policy import after_round, turn

MINUTE = 60_000


def test_slots_stay_an_interval_apart_despite_late_ticks() -> None:
    turns = [turn(None, MINUTE, 1_000)]
    for late in (0, 14_000, 3_000):
        turns.append(turn(turns[-1], MINUTE, turns[-1] + MINUTE + late))

    assert turns == [1_000, 61_000, 121_000, 181_000]


def test_early_round_or_long_absence_restarts_the_slots() -> None:
    assert turn(0, MINUTE, 10_000) == 10_000
    assert turn(0, MINUTE, 10 * MINUTE + 5) == 10 * MINUTE + 5


def ended(state: str, faults: int = 0) -> RoundReport:
    return RoundReport(round=1, instance="shop", state=state, faults=faults)


def retry_at(report: RoundReport, failures: int, now: int) -> int | None:
    waits: int | None = after_round(report, failures, now)["retry_at"]
    return waits


def test_wait_after_failed_rounds_doubles_up_to_an_hour() -> None:
    waits = [retry_at(ended("FAILED"), n, 0) for n in range(9)]

    assert waits[:4] == [30_000, 60_000, 120_000, 240_000]
    assert waits[-1] == 3_600_000


def test_stopped_round_is_due_at_once_and_cancelled_one_later() -> None:
    assert retry_at(ended("STOPPED", 3), 3, 77) == 77
    assert (retry_at(ended("CANCELLED", 3), 0, 77), retry_at(ended("SUCCEEDED"), 0, 77)) == (None, None)


def test_round_with_an_excluded_vault_is_retried() -> None:
    assert retry_at(ended("SUCCEEDED", 3), 0, 0) == 30_000


@pytest.mark.parametrize(
    ("state", "more", "failures", "success"),
    [
        ("SUCCEEDED", {}, 0, True),
        ("SUCCEEDED", {"observed": True}, None, False),
        ("SUCCEEDED", {"faults": 1}, 3, False),
        ("FAILED", {}, 3, False),
        ("CANCELLED", {}, None, False),
    ],
)
def test_only_a_round_that_reached_its_vaults_is_a_success(
    state: str, more: dict[str, Any], failures: int | None, success: bool
) -> None:
    values = after_round(RoundReport(round=1, instance="shop", state=state, **more), 2, 1_000)

    assert values.get("failures") == failures
    assert ("last_success_at" in values) == success
