"""Successes, refusals and time change the rate, and shared rows merge the reports of several workers."""

import pytest

from sexton.marks.model import FilePage
from sexton.recycle.pacing import policy
from sexton.recycle.pacing.lane import Lane
from sexton.recycle.pacing.model import PaceReport, Piece, Rate, RequestWindow, Shared
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.storage.kinds import vault_place
from sexton.storage.model import ClaimId, VaultSpec
from tests.unit.recycle.pacing.pace_world import Table

S3 = VaultSpec(instance="shop", name="cold", kind="s3", location="bucket", prefix="wh/")


def test_rate_doubles_until_refused_then_creeps_up() -> None:
    fresh, below = policy.grown(Rate(1_000), 1.0), policy.grown(Rate(500, 1_000), 1.0)
    near, beyond = policy.grown(Rate(960, 1_000), 1.0), policy.grown(Rate(1_500, 1_000), 1.0)

    assert fresh == Rate(2_000, 0)
    assert below == Rate(600, 1_000)
    assert 960 < near.keys < 962
    assert 1_510 < beyond.keys < 1_520
    assert policy.grown(Rate(policy.HIGHEST_RATE), 1.0).keys == policy.HIGHEST_RATE


def test_refusal_sets_the_rate_below_the_measured_capacity() -> None:
    measured, blind = policy.refused(Rate(4_000, 3_900), 3_500, 1), policy.refused(Rate(4_000, 5_000), None, 1)
    doubtful = policy.refused(Rate(4_000, 3_900), 100, 1)
    again, nothing = policy.refused(Rate(4_000, 3_900), 0.0, 2), policy.refused(Rate(12, 3_900), None, 9)

    assert (measured, blind) == (Rate(3_150, 3_500), Rate(2_400, 4_000))
    assert doubtful == Rate(2_520, 2_800)
    assert (again, nothing) == (Rate(2_000, 3_900), Rate(policy.LOWEST_RATE, 3_900))


def test_refusals_of_requests_under_way_count_as_one() -> None:
    lane = Lane("p", 0.0)
    for _ in range(3):
        lane.record_sent(500)

    lane.record_refusal(0.0, 1.0, 0)
    first = lane.rate
    lane.record_refusal(0.1, 1.1, 0)
    lane.record_loss(0.2, 10.2)
    same = lane.rate
    lane.record_sent(500)
    lane.record_refusal(11.0, 11.1, 0)

    assert (same, lane.rate.keys < first.keys) == (first, True)
    assert (lane.report().throttled, lane.streak) == (4, 2)


def test_waits_double_and_retry_after_is_obeyed() -> None:
    lane = Lane("p", 0.0)
    lane.record_sent(10)

    lane.record_refusal(0.0, 1.0, 0, retry_after=20.0)

    assert [policy.pause(n) for n in (1, 2, 3, 9)] == [0.25, 0.5, 1.0, policy.LAST_PAUSE_SECONDS]
    assert policy.pause(1, workers=3) == 0.75
    assert policy.pause(1, 1, 86_400.0) == policy.PATIENCE_SECONDS
    assert lane.wait(2.0) == pytest.approx(19.0)
    assert lane.wait(21.0) == 0.0


def test_slow_requests_shrink_and_quick_ones_grow() -> None:
    window, seen = RequestWindow(4, 500), []
    for _ in range(6):
        window = policy.resized(window, 5.0, full=True, growth=1.5)
        seen.append((round(window.requests, 1), round(window.keys)))

    assert seen == [(4, 350), (4, 245), (4, 171), (4, 125), (2.8, 125), (2.0, 125)]
    for (requests, keys), seconds, full, then in (
        ((4, 500), 0.1, True, (6, 500)),
        ((4, 500), 0.1, False, (4, 750)),
        ((64, 500), 0.1, True, (64, 750)),
        ((8, 500), 2.0, True, (10, 400)),  # medium requests become more and smaller
        ((8, 500), 2.0, False, (8, 500)),
        ((8, 125), 2.0, True, (8, 125)),
    ):
        assert policy.resized(RequestWindow(requests, keys), seconds, full=full, growth=1.5) == RequestWindow(*then)
    assert policy.narrowed(RequestWindow(1, 125)) == RequestWindow(1, 125)


def test_earlier_or_partial_requests_change_no_window() -> None:
    lane = Lane("p", 0.0)
    first = lane.page_keys()

    def took(sent: float, now: float, keys: int) -> float:
        for _ in range(64):
            lane.record_sent(keys)
        lane.record_success(sent, now, keys)
        for _ in range(63):
            lane.record_unsent()
        return lane._window.requests

    assert took(0.0, 0.5, first // 3) == policy.FIRST_REQUESTS
    assert took(0.0, 0.5, first) == policy.FIRST_REQUESTS * 1.5
    assert took(0.4, 0.6, first) == policy.FIRST_REQUESTS * 1.5
    assert took(0.5, 0.7, first) == policy.FIRST_REQUESTS * 2.25


def test_a_page_has_125_to_1000_keys() -> None:
    pages = [policy.page_keys(RequestWindow(4, 1_000), share) for share in (1, 1_000, 4_000, 1e6)]

    assert pages == [125, 150, 600, 1_000]
    assert policy.page_keys(RequestWindow(4, 300), 1e6) == 300


def test_row_merges_only_reports_based_on_itself() -> None:
    row = Shared(keys_per_second=3_000, ceiling=3_500, throttled_at=5, updated_at=9)
    newer = row.model_copy(update={"throttled_at": 8})
    more, less = Rate(3_100, 3_500), Rate(2_700, 3_000)

    def after(known: Shared | None, rate: Rate, cut: bool) -> Shared:
        return policy.merged(newer, PaceReport("p", known, rate, cut), 20)

    assert after(newer, more, False).keys_per_second == 3_100
    assert after(newer, less, True) == Shared(keys_per_second=2_700, ceiling=3_000, throttled_at=20, updated_at=20)
    assert [after(known, more, cut) for known in (row, None) for cut in (True, False)] == [newer] * 4
    assert after(newer, Rate(3_000.4, 3_500), False) == newer
    assert policy.merged(None, PaceReport("p", None, more, False), 20).throttled_at is None


def test_each_first_folder_is_a_place_up_to_a_maximum() -> None:
    pacer = SharedPacer(Table(), lambda instance, vault: S3, "http://localhost:9000")
    few = pacer.places("shop", "cold", ["a/x", "b/y/z", "top"])
    many = pacer.places("shop", "cold", [f"{n:03x}/k" for n in range(policy.PLACES_A_VAULT)])
    then = pacer.places("shop", "cold", ["a/x"])
    local = VaultSpec(instance="shop", name="disk", kind="local", location="/srv/v/")

    root = "127.0.0.1:9000/bucket/wh/"
    assert (few, set(many), then) == ([f"{root}a/", f"{root}b/", root], {root}, [root])
    assert (vault_place(S3, ""), vault_place(local, "")) == ("aws/bucket/wh/", "file:/srv/v/")


def test_only_files_refused_beside_successes_are_given_up() -> None:
    page = FilePage("cold", [1, 2, 3], ["a", "b", "c"], ["", "", ""])
    all_of_them = some = Piece(page, ["p", "p", "q"], ClaimId(1, 1))
    first, rest = all_of_them.cut(2)

    for at in range(20):
        all_of_them = all_of_them.refused([0, 1, 2], at, telling=False)
    some = some.refused([1, 2], 1.0, telling=True)
    for at in range(6):
        some = some.refused([0, 1], at, telling=True)
    before = some.hopeless
    some = some.refused([0, 1], 9.0, telling=True)

    assert (first.page.keys, rest.page.seqs, rest.charge) == (["a", "b"], [3], {"q": 1})
    assert (all_of_them.hopeless, before, some.hopeless, some.refused_at) == (False, False, True, 9.0)
    assert some.refused([1], 10.0, telling=True).hopeless is False


def test_vault_without_success_or_answer_is_given_up() -> None:
    throttled, lost = policy.Patience(), policy.Patience()

    waits = [throttled.refused(at) for at in (0.0, 100.0, 119.0)]
    throttled.taken()
    verdicts = [throttled.refused(at) for at in (200.0, 319.0, 320.0)]
    tries = [lost.lost(sent, sent + 10) for sent in (1.0, 2.0, 3.0, 20.0, 40.0)]

    assert waits == [None] * 3
    assert verdicts == [None, None, "THROTTLED"]
    assert tries == [None, None, None, None, "UNREACHABLE"]
