"""Repeated calls are counted for a window of time, and what is counted is bounded."""

from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.repeats import Repeats

CALL = CallRecord(who="token 1", source="10.0.0.1", action="stop", outcome="FORBIDDEN")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_first_call_opens_a_window_and_others_are_counted() -> None:
    clock = Clock()
    repeats = Repeats(600, 10, clock)

    windows = [repeats.count("key", CALL) for _ in range(5)]
    assert windows[0] is not None
    windows[0].begun_id = 7
    clock.now = 599
    early = repeats.ended()
    clock.now = 600
    over = repeats.ended()

    assert windows[1:] == [None] * 4
    assert early == []
    assert [(r.begun_id, r.call.times, r.call.outcome) for r in over] == [(7, 4, "FORBIDDEN")]
    assert repeats.count("key", CALL) is not None


def test_a_single_call_leaves_no_count() -> None:
    repeats = Repeats(600, 10, Clock())
    window = repeats.count("key", CALL)
    assert window is not None
    window.begun_id = 7

    assert repeats.ended(all_=True) == []


def test_further_keys_than_the_bound_share_one_window() -> None:
    repeats = Repeats(600, 3, Clock())

    windows = [repeats.count(f"key {n}", CALL) for n in range(100)]

    assert [n for n, window in enumerate(windows) if window is not None] == [0, 1, 2, 3]


def test_a_window_whose_row_was_not_stored_is_forgotten() -> None:
    repeats = Repeats(600, 10, Clock())
    window = repeats.count("key", CALL)
    assert window is not None

    repeats.forget(window)

    assert repeats.count("key", CALL) is not None
