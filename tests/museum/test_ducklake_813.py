"""DuckLake #813: the catalog lay inside the data path, no file was known yet, and the cleanup deleted the catalog.

An owner that shows no file at all is no reason to delete: what bears another name is of unknown kind, and a check that
finds nothing live calls nothing an orphan.
"""

import pytest

from sexton.check.sql.repair import RepairRefused
from tests.integration.check.conftest import Owned


@pytest.mark.slow
def test_ducklake_813_a_catalog_in_the_vault_is_no_garbage(owned: Owned) -> None:
    for key in ("metadata.sqlite", "metadata.sqlite-wal", "data/t1/r1_0.dat"):
        owned.write_old(key)
    for _ in range(3):
        owned.check()
        owned.later(3 * 86_400)
    with pytest.raises(RepairRefused, match="an empty live side would make every object an orphan"):
        owned.repairs.orphans("shop")
    owned.later(3 * 86_400)
    owned.check()
    owned.later(60)

    assert owned.round().deleted == 0
    assert all((owned.root / key).exists() for key in ("metadata.sqlite", "metadata.sqlite-wal", "data/t1/r1_0.dat"))
