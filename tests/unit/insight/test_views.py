"""The time left follows the rate of the last minute, not that of the whole round."""

from sexton.insight.views import KindCounts, RecentRate, RoundCounts


def counts(seconds: float, objects: int, planned: int = 200_000) -> RoundCounts:
    return RoundCounts(
        kinds=(KindCounts(kind="dropped", due=1, planned=planned, objects=objects),), elapsed_ms=round(seconds * 1000)
    )


def test_time_left_follows_the_recent_rate() -> None:
    rate = RecentRate()
    for second in range(200):  # 100 objects a second, and after 100 s ten times as many
        rate.add(counts(second, 100 * second + 900 * max(0, second - 100)))
    last = counts(200, 110_000)
    rate.add(last)

    assert rate.per_second == 1_000
    assert rate.seconds_left(last) == 90


def test_one_sample_or_a_halted_round_has_no_time_left() -> None:
    rate, rates = RecentRate(), []
    for second in range(100):
        rates.append(rate.per_second)
        rate.add(counts(second, 500))
        assert rate.seconds_left(counts(second, 500)) is None

    assert (rates[:2], rate.per_second) == ([None, None], 0)
