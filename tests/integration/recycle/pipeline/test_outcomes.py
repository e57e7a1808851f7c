"""Outcomes of one batch are stored concurrently, and only by its newest attempt."""

import threading

import pytest

from sexton.marks.lease_port import LeaseLost
from sexton.marks.model import FilePage
from sexton.recycle.pipeline.sql.write_token import verify
from tests.support.claims import token
from tests.support.rig import Rig


def test_only_the_newest_attempt_stores_outcomes(rig: Rig) -> None:
    """Executors store them at the same time."""
    first = token(rig)
    stored: list[bool] = []
    with rig.db.write() as c:
        verify(rig.db, c, first, shared=True)
        if rig.db.dialect == "postgresql":  # SQLite has one writer
            other = threading.Thread(
                target=lambda: stored.append(rig.stores.outcomes.record(first, FilePage("disk", [], []), []) is None)
            )
            other.start()
            other.join(4)
            assert stored == [True]
    second = token(rig, attempt=2)

    with pytest.raises(LeaseLost):
        rig.stores.outcomes.record(first, FilePage("disk", [], []), [])
    rig.stores.outcomes.record(second, FilePage("disk", [], []), [])
