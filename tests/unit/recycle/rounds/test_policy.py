"""Instances have schedule slots, and failed rounds are retried later."""

from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.policy import after_round, turn

MINUTE = 60_000


def test_slots_stay_an_interval_apart_despite_late_ticks() -> None:
    turns = [turn(None, MINUTE, 1_000)]
    for late in (0, 14_000, 3_000):
        turns.append(turn(turns[-1], MINUTE, turns[-1] + MINUTE + late))

    assert turns == [1_000, 61_000, 121_000, 181_000]
    assert turn(0, MINUTE, 10_000) == 10_000  # an early round, or a long absence, restarts the slots
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
    assert retry_at(ended("STOPPED", 3), 3, 77) == 77  # at once
    assert (retry_at(ended("CANCELLED", 3), 0, 77), retry_at(ended("SUCCEEDED"), 0, 77)) == (None, None)
    assert retry_at(ended("PARTIAL", 3), 0, 0) == 30_000  # a vault was excluded


def test_only_a_round_that_reached_its_vaults_is_a_success() -> None:
    observed = RoundReport(round=1, instance="shop", state="SUCCEEDED", observed=True)
    for report, failures, is_success in (
        (ended("SUCCEEDED"), 0, True),
        (observed, None, False),
        (ended("PARTIAL", 1), 3, False),
        (ended("FAILED"), 3, False),
        (ended("CANCELLED"), None, False),
    ):
        values = after_round(report, 2, 1_000)

        assert (values.get("failures"), "last_success_at" in values) == (failures, is_success), report
