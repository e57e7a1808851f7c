"""Random histories of marks, commits, undrops, holds, stops, rounds and crashes: nothing needed is lost, nothing held
is deleted, no garbage is left after clean rounds, the counts add up. Told by a reader that knows nothing of Sexton.

That it can fail is tested in ``test_random_histories_can_fail``.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings

from sexton.kernel.crash_points import OF_ROUNDS
from tests.fault.histories import History, histories, play

ALL = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)


@pytest.mark.timeout(600)
def test_history_loses_no_needed_file_and_leaves_no_garbage() -> None:
    reached: Counter[str] = Counter()

    @settings(ALL, max_examples=25, derandomize=True)
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
