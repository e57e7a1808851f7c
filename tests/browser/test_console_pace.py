"""While a store refuses requests the pace on the page falls; a cap set on the page holds by the count of the store."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from sexton.contract import NewMark
from tests.browser.live_console import DUE_SECONDS, LiveConsole
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

MARKS, KEYS, CAP, SECONDS = 120, 300, 200, 8
LONG_MS = 90_000


@pytest.fixture
def proxy(s3_server: RunningS3) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        yield proxy


@pytest.fixture
def live(database_url: str, proxy: FaultProxy, bucket: str, tmp_path: Path) -> Iterator[LiveConsole]:
    """A vault in S3, and due marks whose keys nobody wrote: S3 deletes those, too."""
    rig = Rig(database_url, endpoint_url=proxy.url).instance()
    rig.s3(bucket)
    marks = [
        NewMark(id=f"t{mark}", vault="cold", keys=tuple(f"data/{mark}/{n}.dat" for n in range(KEYS)))
        for mark in range(MARKS)
    ]
    rig.mark("dropped", *marks)
    rig.later(DUE_SECONDS)
    with LiveConsole(rig, tmp_path / "live", S3__ENDPOINT_URL=proxy.url) as live:
        yield live
    rig.db.close()


def _deleted(proxy: FaultProxy) -> int:
    return sum(len(entry.keys) for entry in proxy.log if entry.operation == "DeleteObjects" and entry.status == 200)


@pytest.mark.slow
def test_the_pace_follows_the_store_and_a_cap_holds(live: LiveConsole, proxy: FaultProxy, browser: Browser) -> None:
    proxy.delay("DeleteObjects", 0.2)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        page.goto("/console/rounds?instance=shop")
        page.click("button:has-text('Start a round')")
        page.goto("/console/vaults?instance=shop")
        allowed = page.locator("[aria-label=Pace] tbody td.n").first
        expect(allowed).to_be_visible(timeout=LONG_MS)
        before = int(allowed.inner_text().replace(",", ""))
        proxy.fail_next("DeleteObjects", 503, "SlowDown", times=4)
        deadline = time.monotonic() + 60
        while int(allowed.inner_text().replace(",", "")) >= before:
            assert time.monotonic() < deadline
            time.sleep(0.2)

        page.fill("#cap-1", str(CAP))
        page.click("text=Set the cap")
        expect(page.locator(".notice")).to_contain_text("is deleted from at 200 keys/s at most")
        time.sleep(6)
        counted = _deleted(proxy)
        time.sleep(SECONDS)
        assert 0 < _deleted(proxy) - counted <= CAP * SECONDS * 1.5

        page.goto("/console/rounds?instance=shop")
        page.click("main tbody a")
        expect(page.locator("#live")).to_contain_text("at most 200 keys per second, its cap", timeout=LONG_MS)
        expect(page.locator("#rate .u-legend")).to_contain_text("allowed", timeout=LONG_MS)
