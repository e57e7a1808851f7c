"""Neon #865: the collector of a branch deleted layers that only its child branches still read.

It kept the layers at a branch point, and not those before it. In Sexton the owner answers for every reader: a layer
that any branch shows is kept, whichever branch has dropped it.
"""

from sexton.contract import NewMark
from tests.integration.check.conftest import Owned

BEFORE, AT, AFTER = (f"data/main/r{n}_0.dat" for n in (1, 2, 3))


def test_neon_865_layers_before_a_branch_point_stay(owned: Owned) -> None:
    for key in (BEFORE, AT, AFTER):
        owned.write_old(key)
    for key in (BEFORE, AT):
        owned.live_rows((key, 10), kind="child")  # the branch begins at the second layer, and reads the first, too
    owned.mark(
        "compacted",
        *(NewMark(id=str(n), vault="disk", keys=(key,)) for n, key in enumerate((BEFORE, AT, AFTER))),
    )
    owned.later(200_000)

    report = owned.round()
    left = [key for key in (BEFORE, AT, AFTER) if (owned.root / key).exists()]
    owned.forget(BEFORE, AT)  # the child is deleted
    owned.round()

    assert (report.deleted, left) == (1, [BEFORE, AT])
    assert not any((owned.root / key).exists() for key in (BEFORE, AT, AFTER))
