"""DuckLake #815: the data path ended with a slash, so paths had two, none was equal to its record, all were orphans.

Sexton compares keys in one canonical form: doubled slashes in a record or in a mark mean the same object.
"""

from sexton.contract import NewMark
from tests.integration.check.conftest import Owned, file_keys
from tests.support.kept import kept_texts


def test_ducklake_815_a_doubled_slash_makes_no_orphan(owned: Owned) -> None:
    keys = file_keys(5)
    for key in keys:
        owned.write_old(key)
        owned.live_rows((key.replace("/", "//"), 10))
    owned.mark("dropped", NewMark(id="wrong", vault="disk", keys=(keys[0],)))
    owned.later(10_801)

    checked, report = owned.check(), owned.round()

    assert checked.found == {}
    assert (report.deleted, sum(report.kept.values())) == (0, 1)
    assert "live" in " ".join(kept_texts(report))
    assert all((owned.root / key).exists() for key in keys)
