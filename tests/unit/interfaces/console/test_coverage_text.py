"""The notice of a new hold says what the hold covers, and warns where that may not be what was meant."""

import pytest

from sexton.interfaces.console.routes.blockers import coverage_text
from sexton.operations.holds import PlacedHold
from sexton.operators.holds.model import Hold


def _placed(scope: str, matches: int | None, **more: int) -> PlacedHold:
    hold = Hold(id=1, instance="shop", scope=scope, vault="disk", prefix="a/", reason="x")
    return PlacedHold(hold=hold, matches_now=matches, **{"too_late": 0, "blocks_now": matches} | more)


@pytest.mark.parametrize(
    ("placed", "says", "warns"),
    [
        (_placed("prefix", 2), "It covers 2 marks now.", False),
        (_placed("prefix", 0), "check the spelling", True),
        (_placed("prefix", 0, may_block=3), "3 marks above it will be kept only if files are there", True),
        (_placed("prefix", None), "was not counted", True),
        (_placed("mark", 0), "check its spelling", True),
        (_placed("mark", 0, blocks_now=2), "It also blocks 2 marks with more levels of parents", True),
        (_placed("instance", 0), "It covers 0 marks now.", False),
        (_placed("instance", 5, too_late=2), "Too late for 2 marks", True),
    ],
)
def test_a_notice_warns_where_a_hold_may_be_another_one(placed: PlacedHold, says: str, warns: bool) -> None:
    text, is_warning = coverage_text(placed)

    assert says in text
    assert is_warning is warns
