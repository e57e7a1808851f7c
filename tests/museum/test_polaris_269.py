"""Polaris #269, #774: a drop with purge answered that it was done; the server died, and its files stayed for ever.

The work to do was in the memory of the server. In Sexton it is a mark, which the transaction of the drop makes, and a
round that dies is continued by the next one, wherever it runs.
"""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, listing, put


@pytest.mark.parametrize("point", ["claim.committed", "files.deleted"])
def test_polaris_269_a_drop_is_purged_after_a_crash(rig: Rig, disk: Path, point: str) -> None:
    put(disk, "data/t1/a.dat")
    put(disk, "data/t2/a.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/t1/a.dat",)))
    rig.later(10_801)
    with installed(crash_at(point)), pytest.raises(Crash):
        rig.round()
    other_server = Rig(rig.url)
    other_server.later(61)

    other_server.round()

    assert set(listing(disk)) == {"data/t2/a.dat"}
    assert (other_server.count("mark"), other_server.count("mark_history")) == (0, 1)
