"""Two last writes of one object are compared as texts of seconds, which stores round in their own ways."""

import pytest

from sexton.storage.policy import is_rewritten

SEEN = "2024-02-29T23:59:59"


@pytest.mark.parametrize(
    ("written", "rewritten"),
    [
        (SEEN, False),
        ("2024-03-01T00:00:00", False),
        ("2024-02-29T23:59:58", False),
        ("2024-03-01T00:00:01", True),
        ("2024-02-29T22:00:00", True),
        ("", True),
    ],
    ids=["same", "rounded up", "rounded down", "later", "earlier", "unknown"],
)
def test_a_write_of_another_second_is_another_write(written: str, rewritten: bool) -> None:
    assert is_rewritten(written, SEEN) is rewritten


def test_nothing_is_compared_with_an_unknown_write() -> None:
    assert not is_rewritten(SEEN, "")
