"""The exit code of `sexton check run` says whether objects are lost, and its last line whether any was judged."""

from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from tests.e2e.conftest import Run
from tests.support.rig import put

LIVE_PREFIX = (
    "CREATE VIEW public.sexton_live AS SELECT 'rowset' AS kind, 'r1' AS id, 'disk' AS vault, 'live/' AS \"key\", "
    "'shop' AS instance"
)


@pytest.mark.slow
def test_n3_confirmed_loss_ends_the_command_with_code_4(
    online: Run, shop: Database, tmp_path: Path, worker: None
) -> None:
    with shop.write() as c:
        c.exec_driver_sql(LIVE_PREFIX)
    Registry(shop).set_live_view("shop", "public.sexton_live")
    put(tmp_path / "v", "live/0.dat")

    young = online("check", "run", "shop")
    (tmp_path / "v" / "live/0.dat").unlink()
    lost = online("check", "run", "shop")
    told = online("why", "live/")
    with shop.write() as c:
        c.exec_driver_sql("DROP VIEW public.sexton_live")
    partial = online("check", "run", "shop")

    assert (young.returncode, lost.returncode, partial.returncode) == (0, 4, 3)
    assert "nothing open: no object was old enough to be judged" in young.stdout
    assert "inside a prefix cannot be detected" in young.stdout
    assert "a record names the object, and it does not exist" in lost.stdout
    assert "LOST, confirmed: live/ in vault disk did not exist" in told.stdout
