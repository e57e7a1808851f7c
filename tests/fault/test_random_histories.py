"""Random histories lose nothing that is needed, delete nothing that is held, and leave no garbage after clean rounds.

A history has marks, commits, undrops, holds, stops, rounds and crashes; an independent reader judges it, and the
counts must add up. ``test_random_histories_can_fail`` proves that the histories can fail.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings

from tests.fault.histories import History, histories, play
from tests.support.crashes import OF_ROUNDS

ALL = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)


@pytest.mark.slow
def test_history_loses_no_needed_file_and_leaves_no_garbage() -> None:
    reached: Counter[str] = Counter()

    @settings(ALL, max_examples=16, derandomize=True)
    @given(histories())
    def every_promise_holds(history: History) -> None:
        reached.update(play(history).hits)

    every_promise_holds()

    assert reached.keys() == OF_ROUNDS


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(ALL, max_examples=5_000, print_blob=True)
@given(histories())
def test_thousands_of_histories_lose_nothing_and_leave_nothing(history: History) -> None:
    world = play(history)

    event(f"deaths: {min(3, sum(world.deaths.values()))}")
    assert world.witness.history.keys() >= world.witness.claims
