"""A round ends under every fault of the store, and the next clean rounds leave no garbage."""

from collections.abc import Callable

import pytest

from sexton.contract import NewMark
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.store import deletes
from tests.servers.fault_proxy import FaultProxy

PAGES = 4
CLIENT_GIVES_UP_SECONDS = 11.0
Fail = Callable[[FaultProxy, str], None]
FAULTS: dict[str, Fail] = {
    "slow down": lambda proxy, what: proxy.fail_next(what, 503, "SlowDown", 3 if what == "DeleteObjects" else 1),
    "reset": lambda proxy, what: proxy.reset_next(what),
    "reply lost": lambda proxy, what: proxy.reset_next(what, after=True),
    "reply truncated": lambda proxy, what: proxy.truncate_next(what),
    "timeout": lambda proxy, what: proxy.delay(what, CLIENT_GIVES_UP_SECONDS),
}
ASKED_AGAIN = ("slow down", "reset", "reply lost")
"""One such reply to a listing is asked for again; a time-out or a reply that makes no sense is not."""


@pytest.mark.parametrize("fault", FAULTS)
@side_by_side(25)
async def test_rounds_end_and_clean_up_under_every_store_fault(live: LiveTest, fault: str) -> None:
    async with live.deployment() as deployment:
        proxy, cold, rig, fail = deployment.proxy, deployment.cold, deployment.rig, FAULTS[fault]
        cold.put("dir/a.dat", "dir/b.dat")
        rig.mark("dropped", NewMark(id="dir", vault="cold", prefix="dir/"))
        await cold.fill(rig, PAGES)
        await deployment.worker("the only one")

        fail(proxy, "DeleteObjects")
        during = await deployment.round()
        proxy.delay("DeleteObjects", 0)
        clean = await deployment.round()
        listed = cold.listing()
        rig.later(3_601)  # the prefix is listed once more
        fail(proxy, "ListObjectsV2")
        look = await deployment.round()
        proxy.delay("ListObjectsV2", 0)
        last = await deployment.round()

        live.note(f"{during.waiting} marks waited for the second round, {len(deletes(proxy))} delete requests answered")
        assert during.waiting > 0 or len(deletes(proxy)) > PAGES + 1  # it was felt
        assert listed == cold.listing() == cold.needed
        assert (look.removed, look.faults) == ((1, 0) if fault in ASKED_AGAIN else (0, 1))
        assert {r.state for r in (during, clean, look, last)} == {"SUCCEEDED"}
        assert {t: rig.count(t) for t in ("mark", "file_list")} == {"mark": 0, "file_list": 0}
        assert (
            during.removed + clean.removed + look.removed + last.removed == rig.count("mark_history") == PAGES * 100 + 1
        )
        assert during.failed + clean.failed + last.failed == 0
