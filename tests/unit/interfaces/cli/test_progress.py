"""The bar of a kind moves with each page that is deleted, and shows about how long the rest takes."""

import io
import re
import sys

import pytest

from sexton.insight.views import KindCounts, RoundCounts
from sexton.interfaces.cli.progress import progress_display
from sexton.recycle.rounds.model import KindProgress, RoundProgress

ROUND = RoundProgress(instance="shop", doing="RECYCLING", round=1, kinds=(KindProgress(kind="dropped", due=1),))
"""What the workflow knows before the first range of the kind has ended."""


class Screen(io.StringIO):
    """A terminal whose output can be read."""

    def isatty(self) -> bool:
        return True


def test_bar_moves_with_each_page_and_shows_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_display(enabled=True) as display:
        assert display is not None
        for objects in (0, 10, 20):
            kind = KindCounts(kind="dropped", due=1, claimed=1, planned=10, listed=30, objects=objects)
            display.update(ROUND, RoundCounts(kinds=(kind,)))

    last = re.findall(r"dropped.*20/30 objects.*", screen.getvalue())[-1]
    assert re.search(r"\d\d:\d\d", last)
