"""DuckLake #1354: one Parquet file was added to two tables, one table was dropped, and the file deleted.

Its cleanup scheduled the path of each entry that no snapshot needs, and did not ask whether another entry has the same
path. Sexton asks the owner before each claim, by key: a file that any row still shows is kept, and ``why`` names it.
"""

import pytest

from sexton.contract import NewMark
from sexton.marks.keepers import KeepReason
from tests.integration.check.conftest import Owned, owned
from tests.support.command import run
from tests.support.kept import kept_texts

__all__ = ["owned"]
SHARED = "data/t1/shared_0.dat"


def test_ducklake_1354_a_file_of_two_tables_stays(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    owned.write_old(SHARED)
    owned.live_rows((SHARED, 10), kind="t1")
    owned.live_rows((SHARED, 10), kind="t2")
    owned.forget(SHARED)
    owned.live_rows((SHARED, 10), kind="t2")
    owned.mark("dropped", NewMark(id="of-t1", vault="disk", keys=(SHARED,)))
    owned.later(10_801)

    first = owned.round()
    why = run(owned, capsys, "why", SHARED).out
    is_kept = (owned.root / SHARED).exists()
    owned.forget(SHARED)
    second = owned.round()

    assert (first.deleted, is_kept, list(first.kept.values())) == (0, True, [1])
    assert KeepReason.LIVE in {kept.reason for kept in first.kept}
    assert "live: t2" in why
    assert (second.deleted, (owned.root / SHARED).exists()) == (1, False)
    assert kept_texts(second) == {}
