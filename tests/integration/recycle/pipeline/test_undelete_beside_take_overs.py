"""An undelete sees a take-over that settles its marks while it reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.operators.registry import undelete_check
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    attempt,
    hang_once,
    is_undelete_safe,
    range_order,
    work_off,
)
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


def test_undelete_sees_a_take_over_while_it_reads_the_marks(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    order = range_order(rig)
    sent, answering = hang_once(monkeypatch)
    real: Callable[..., set[object]] = undelete_check._claimed_marks
    taken_over = False

    def read_slowly(*arguments: object) -> set[object]:
        nonlocal taken_over
        if not taken_over:
            taken_over = True
            work_off(rig, order, 2)
        return real(*arguments)

    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        monkeypatch.setattr(undelete_check, "_claimed_marks", read_slowly)
        is_safe = is_undelete_safe(rig, "a.dat")
        answering.set()

    assert taken_over
    assert not is_safe  # it sees the take-over at the end
