"""Distribution #3045: a registry was collected during a push, between the upload of layers and that of their manifest.

The new layers were named by nothing yet, so they were deleted, and the push succeeded. In Sexton a writer announces its
files before it uploads them; no round deletes them before the announced time is over, and the commit ends the mark.
"""

from sexton import contract
from tests.integration.check.conftest import Owned
from tests.support.rig import DAY
from tests.support.transactions import owner_write


def test_distribution_3045_a_push_in_progress_is_not_collected(owned: Owned) -> None:
    with owner_write(owned.db) as c:
        contract.prepare(c, "shop", "push-1", ["layer1"], "disk", ["data/layer1/"], DAY)
    path = owned.write_old("data/layer1/layer1_0.dat")

    during = owned.round()
    check = owned.check()
    with owner_write(owned.db) as c:
        contract.commit(c, "shop", ["layer1"])
    owned.live_rows(("data/layer1/layer1_0.dat", 10))
    owned.later(10 * DAY)
    after = owned.round()

    assert (during.deleted, check.found, after.deleted) == (0, {}, 0)
    assert path.exists()
