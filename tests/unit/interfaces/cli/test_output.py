"""Sizes that nobody knows are not printed as zero, and a remaining time is rounded to what people need."""

import pytest

from sexton.insight.wording import freed, time_left


@pytest.mark.parametrize(
    ("size", "unknown", "text"),
    [(0, 0, "0 B"), (2_048, 0, "2.0 KiB"), (0, 3, "unknown"), (2_048, 1_234, "2.0 KiB + 1,234 unknown")],
)
def test_an_unknown_size_is_not_zero(size: int, unknown: int, text: str) -> None:
    assert freed(size, unknown) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, ", about 0 s left"),
        (89.4, ", about 89 s left"),
        (600, ", about 10 min left"),
        (9_000, ", about 2.5 h left"),
    ],
)
def test_the_time_left_is_rounded(seconds: float | None, text: str) -> None:
    assert time_left(seconds) == text
