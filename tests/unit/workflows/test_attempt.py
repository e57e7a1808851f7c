"""The ending of an attempt decides whether its round ends, fails or is retried."""

import pytest

from workflows.attempt import AttemptResult, Conclusion, Ending, conclude
from workflows.options import MAX_TRIES
from workflows.signals import RetryAfter


def test_a_finished_attempt_ends_the_round_well() -> None:
    assert conclude(AttemptResult(Ending.FINISHED), 3) == Conclusion("SUCCEEDED", "")


def test_a_halted_attempt_ends_the_round_as_stopped() -> None:
    assert conclude(AttemptResult(Ending.HALTED, "a stop"), 0) == Conclusion("STOPPED", "a stop")


@pytest.mark.parametrize(("tries", "seconds"), [(1, 10.0), (2, 20.0), (MAX_TRIES - 1, 160.0)])
def test_failed_kinds_are_tried_again_after_a_longer_wait(tries: int, seconds: float) -> None:
    assert conclude(AttemptResult(Ending.FAILED, "the disk is full"), tries) == RetryAfter(seconds)


def test_the_last_failed_try_fails_the_round() -> None:
    assert conclude(AttemptResult(Ending.FAILED, "the disk is full"), MAX_TRIES) == Conclusion(
        "FAILED", "the disk is full"
    )


@pytest.mark.parametrize("ending", [Ending.NOT_ENABLED, Ending.LEASE_LOST])
def test_an_attempt_that_no_retry_can_save_fails_the_round(ending: Ending) -> None:
    assert conclude(AttemptResult(ending, "why"), 1) == Conclusion("FAILED", "why")


def test_only_failures_count_as_tries() -> None:
    failing = [e for e in Ending if AttemptResult(e).failed]

    assert failing == [Ending.FAILED, Ending.NOT_ENABLED, Ending.LEASE_LOST]


def test_some_endings_stop_every_kind() -> None:
    stopping = [e for e in Ending if AttemptResult(e).stops_every_kind]

    assert stopping == [Ending.NOT_ENABLED, Ending.HALTED, Ending.LEASE_LOST]
