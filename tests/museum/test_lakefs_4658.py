"""lakeFS #4658: the collector did not know relative paths, nor some kinds of files, and took them for garbage.

In Sexton an unreferenced object is a candidate only if its key has the form of the owner's files; others are only
shown.
"""

import pytest

from tests.integration.check.conftest import PATTERN, Owned, file_keys
from tests.support.rig import DAY

STRANGE = ["_lakefs/x.json", "data/t1/r1_0.parquet", "r1_0.dat", "data/t1/sub/r1_0.dat", "data/t1/r1_0.dat.crc"]


@pytest.mark.slow
def test_lakefs_4658_file_of_an_unknown_kind_is_no_orphan(owned: Owned) -> None:
    owned.write_live(*file_keys(400))
    for key in STRANGE:
        owned.write_old(key)
    for pattern in (PATTERN, ""):  # at last nobody says what keys look like: then nothing is known
        owned.registry.set_key_pattern("shop", pattern)
        for _ in range(3):
            owned.check()
            owned.later(2 * DAY)
        report = owned.check()

        assert owned.open_findings() == {"UNKNOWN_KIND": set(STRANGE)}
        assert report.confirmed == {}
        assert owned.repairs.orphans("shop").found == 0
    owned.later(4 * DAY)
    owned.round()
    assert all((owned.root / key).exists() for key in STRANGE)
