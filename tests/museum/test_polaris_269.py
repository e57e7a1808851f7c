"""Polaris #269, #774: a drop with purge answered that it was done; the server died, and its files stayed for ever.

The work to do was in the memory of the server. In Sexton it is a mark, which the transaction of the drop makes, and a
round that dies is continued by the next one, wherever it runs.
"""

from pathlib import Path

import pytest

from sexton.kernel.crash_points import installed
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, listing, put


def test_polaris_269_a_drop_is_purged_after_a_crash(rig: Rig, disk: Path) -> None:
    put(disk, "data/t2/a.dat")
    rig.drop(disk, "data/t1/a.dat", "t1", later=10_801)
    with installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.round()
    other_server = Rig(rig.url)
    other_server.later(61)

    other_server.round()

    assert set(listing(disk)) == {"data/t2/a.dat"}
    assert (other_server.count("mark"), other_server.count("mark_history")) == (0, 1)
