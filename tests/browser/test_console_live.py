"""What a browser shows while parts of a real deployment die: a worker, the API, Temporal."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from sexton.client import Sexton
from sexton.contract import undrop
from sexton.operators.call_log.store import CallStore
from tests.browser.keyboard import tab_to
from tests.browser.live_console import LiveConsole, dropped_table
from tests.support.rig import Rig

pytestmark = pytest.mark.slow
OBJECTS, CAP = 6_000, 300
LONG_MS = 90_000


@pytest.fixture
def live(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[LiveConsole]:
    """A deployment with the settings of ``request.param``."""
    rig = Rig(database_url).instance()
    rig.local(tmp_path / "v")
    with LiveConsole(rig, tmp_path / "live", **getattr(request, "param", {})) as live:
        yield live
    rig.db.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "v"


def _until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _left(files: list[Path]) -> int:
    return sum(file.exists() for file in files)


def _start_round(page: Page) -> None:
    """Start a round from the page and open its page."""
    page.goto("/console/rounds?instance=shop")
    page.click("button:has-text('Start a round')")
    expect(page.locator(".notice")).to_contain_text("was started")
    page.click("main a[href*='/console/rounds/']")


def test_the_page_follows_a_round_whose_worker_is_killed(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, OBJECTS, 100, CAP)
    first = live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        _start_round(page)
        gone = page.locator(".card[data-objects]")
        _until(lambda: int(gone.get_attribute("data-objects") or 0) >= 0.4 * OBJECTS)
        first.kill()
        at_kill = OBJECTS - _left(files)
        assert at_kill < OBJECTS
        expect(page.locator(".ask")).to_contain_text("No sign of its worker", timeout=LONG_MS)
        live.start_worker("second")
        expect(page.locator(".ask")).to_be_hidden(timeout=LONG_MS)
        expect(page.locator(".lead")).to_contain_text("succeeded", timeout=LONG_MS)
    assert not _left(files)
    assert live.rig.count("round", state="SUCCEEDED") == 1


def test_the_page_goes_on_after_the_api_was_restarted(live: LiveConsole, browser: Browser) -> None:
    with live.page(browser, "operate@shop") as page:
        live.console.kill()
        expect(page.locator("#lost")).to_be_visible()
        live.start_console()
        expect(page.locator("#lost")).to_be_hidden(timeout=LONG_MS)
        expect(page.locator(".figures").first).to_be_visible()


def test_the_page_says_that_temporal_is_away_and_goes_on(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 10, 1, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        live.temporal.child.stop()
        expect(page.locator("text=Temporal did not answer")).to_be_visible(timeout=LONG_MS)
        expect(page.locator(".figures").first).to_be_visible()
        page.goto("/console/rounds?instance=shop")
        page.click("button:has-text('Start a round')")
        expect(page.locator("main")).to_contain_text("Temporal")
        assert _left(files) == 10
        live.temporal.start()
        page.goto("/console")
        expect(page.locator("text=Temporal did not answer")).to_be_hidden(timeout=LONG_MS)
        _start_round(page)
        expect(page.locator(".lead")).to_contain_text("succeeded", timeout=LONG_MS)
    assert not _left(files)


def test_two_browsers_approve_one_plan(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 20, 1, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as ada, live.page(browser, "operate@shop") as bob:
        ada.goto("/console/plans?instance=shop")
        ada.click("button:has-text('Plan what is due')")
        address = ada.url
        assert re.search(r"/plans/\d+", address), address
        bob.goto(address)
        button = "button:has-text('Delete up to 20 objects')"
        ada.click(button)
        expect(ada.locator(".notice")).to_be_visible()
        bob.click(button)
        expect(bob.locator(".problem")).to_contain_text(
            re.compile("cannot be applied: approved by token .* \\(operate@shop\\)")
        )
        _until(lambda: not _left(files))
    assert live.rig.count("plan") == 1


def test_no_page_begins_five_seconds_after_a_stop(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 20_000, 100, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        _start_round(page)
        _until(lambda: _left(files) < 19_000)
        page.fill("#stop-reason", "odd deletes")
        page.click("button:has-text('Stop shop')")
        expect(page.locator(".banner")).to_contain_text("odd deletes")
        time.sleep(5)
        left = _left(files)
        time.sleep(5)
        assert _left(files) == left > 0
        page.goto("/console/log?instance=shop")
        row = page.locator("tr", has_text="odd deletes")
        expect(row).to_contain_text("operate@shop")


def test_a_link_leads_to_the_round_in_temporal(live: LiveConsole, browser: Browser, root: Path) -> None:
    dropped_table(live.rig, root, 3_000, 100, 300)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        _start_round(page)
        page.click("text=This round in the Temporal UI")
        assert page.url.startswith(live.temporal.ui_url)
        expect(page.locator("body")).to_contain_text("recycle_range", timeout=LONG_MS)
        expect(page.locator("body")).to_contain_text("test-rig/recycle/shop")


@pytest.mark.parametrize("live", [{"RECYCLE__MAX_DELETE_OBJECTS": "5"}], indirect=True)
def test_a_plan_above_the_limit_needs_its_number_typed(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 12, 1, 1_000)
    foreign = root / "data" / "live.dat"
    foreign.write_bytes(b"live")
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        page.goto("/console/plans?instance=shop")
        page.click("button:has-text('Plan what is due')")
        address = page.url
        page.fill("#objects", "11")
        page.click("button:has-text('Delete up to 12 objects')")
        expect(page.locator(".problem")).to_contain_text("12")
        assert _left(files) == 12

        page.goto(address)
        page.fill("#objects", "12")
        page.click("button:has-text('Delete up to 12 objects')")
        expect(page.locator(".notice")).to_be_visible()
        _until(lambda: not _left(files))
    assert foreign.exists()
    applied = {call.who for call in CallStore(live.rig.db).rows(0, 100) if call.action == "apply"}
    assert ["operate@shop" in who for who in applied] == [True]


def test_a_plan_whose_marks_have_changed_is_refused(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 12, 1, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        page.goto("/console/plans?instance=shop")
        page.click("button:has-text('Plan what is due')")
        with live.rig.db.write() as c:
            undrop(c, "shop", "dropped", ["t3"])
        page.click("button:has-text('Delete up to 12 objects')")
        expect(page.locator(".problem")).to_contain_text("no longer matches what is due")
    assert _left(files) == 12


@pytest.mark.parametrize("ended_by", ["a stop", "a cancel"])
def test_an_approval_ends_with_a_round_that_did_not_begin(
    live: LiveConsole, browser: Browser, root: Path, ended_by: str
) -> None:
    files = dropped_table(live.rig, root, 6, 1, 1_000)
    with live.page(browser, "operate@shop") as page:
        page.goto("/console/plans?instance=shop")
        page.click("button:has-text('Plan what is due')")
        address = page.url
        page.click("button:has-text('Delete up to 6 objects')")
        expect(page.locator(".notice")).to_be_visible()
        assert live.rig.count("plan", approved_by=None) == 0
        if ended_by == "a stop":
            page.click("button:has-text('Stop shop')")
        else:
            with Sexton(live.url, live.token("operate@shop"), patience_seconds=5) as client:
                client.ask("round cancel", instance="shop")
        live.start_worker("first")
        _until(lambda: live.rig.count("plan", approved_by=None) == 1, 120)
        assert _left(files) == 6

        if ended_by == "a stop":
            with Sexton(live.url, live.token("operate@shop"), patience_seconds=5) as client:
                client.start("shop")
        page.goto(address)
        page.click("button:has-text('Delete up to 6 objects')")
        _until(lambda: not _left(files))


def test_keyboard_alone_plans_and_applies(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 6, 1, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        tab_to(page, "Plans")
        page.keyboard.press("Enter")
        page.wait_for_url("**/plans*")
        tab_to(page, "Plan what is due now")
        page.keyboard.press("Enter")
        page.wait_for_url("**/plans/*")
        tab_to(page, "Delete up to 6 objects")
        page.keyboard.press("Enter")
        expect(page.locator(".notice")).to_contain_text("was started")
        _until(lambda: not _left(files))


def test_without_scripts_a_plan_is_applied(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 6, 1, 1_000)
    live.start_worker("first")
    with live.page(browser, "operate@shop", java_script_enabled=False) as page:
        page.goto("/console/plans?instance=shop")
        page.click("button:has-text('Plan what is due')")
        page.click("button:has-text('Delete up to 6 objects')")
        expect(page.locator(".notice")).to_contain_text("was started")
        _until(lambda: not _left(files))


def test_a_round_is_paused_resumed_and_cancelled(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 6_000, 100, 300)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        _start_round(page)
        address = page.url
        page.click("#pause")
        page.goto(address)
        expect(page.locator(".ask")).to_contain_text("paused", timeout=LONG_MS)
        paused_at = _left(files)
        time.sleep(3)
        assert _left(files) == paused_at > 0

        page.click("#resume")
        _until(lambda: _left(files) < paused_at)
        page.goto(address)
        page.click("#cancel")
        page.goto(address)
        expect(page.locator(".lead")).to_contain_text("cancelled", timeout=LONG_MS)
        assert _left(files) > 0
