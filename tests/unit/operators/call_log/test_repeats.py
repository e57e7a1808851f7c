"""Repeated calls are counted for a window of time, and what is counted is bounded."""

from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.repeats import MOST_ADDRESSES, Repeats

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


def test_further_calls_of_a_caller_share_one_window() -> None:
    repeats = Repeats(600, 3, Clock())

    windows = [repeats.count(f"key {n}", CALL) for n in range(100)]
    last = windows[3]

    assert [n for n, window in enumerate(windows) if window is not None] == [0, 1, 2, 3]
    assert last is not None
    assert (last.call.who, last.call.source, last.call.action, last.more) == ("token 1", "various", "further calls", 96)


def test_no_caller_hides_the_calls_of_another() -> None:
    repeats, other = Repeats(600, 3, Clock()), CALL.model_copy(update={"who": "token 2"})
    for n in range(100):
        repeats.count(f"key {n}", CALL)
    window = repeats.count("key 99", other)

    assert window is not None
    assert window.call == other


def test_further_addresses_share_one_window() -> None:
    repeats = Repeats(600, 3, Clock())
    calls = [CALL.model_copy(update={"who": "unknown", "source": f"10.0.0.{n}"}) for n in range(MOST_ADDRESSES + 50)]

    windows = [repeats.count("key", call, call.source) for call in calls]
    first = repeats.count("key", calls[0], calls[0].source)
    own = repeats.count("key", CALL)
    sources = [window.call.source for window in windows if window is not None]

    assert sources == [call.source for call in calls[:MOST_ADDRESSES]] + ["other addresses"]
    assert first is None
    assert own is not None


def test_a_window_whose_row_was_not_stored_is_forgotten() -> None:
    repeats = Repeats(600, 10, Clock())
    window = repeats.count("key", CALL)
    assert window is not None

    repeats.forget(window)

    assert repeats.count("key", CALL) is not None
