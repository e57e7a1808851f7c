"""What a browser shows while parts of a real deployment die: a worker, the API, Temporal."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from sexton.client import Sexton
from sexton.contract import undrop
from tests.browser.keyboard import tab_to
from tests.browser.live_console import LiveConsole, dropped_table
from tests.support.eventually import PATIENCE_SECONDS, eventually
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


def approved_plans(live: LiveConsole) -> int:
    return live.rig.count("plan") - live.rig.count("plan", approved_by=None)


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
        eventually("the page counts deletions", lambda: int(gone.get_attribute("data-objects") or 0) >= 0.4 * OBJECTS)
        first.kill()
        at_kill = OBJECTS - _left(files)
        assert at_kill < OBJECTS
        expect(page.locator(".ask")).to_contain_text("No sign of its worker", timeout=LONG_MS)
        live.start_worker("second")
        expect(page.locator(".ask")).to_be_hidden(timeout=LONG_MS)
        expect(page.locator(".lead")).to_contain_text("succeeded", timeout=LONG_MS)
    assert not _left(files)
    assert live.rig.count("round", state="SUCCEEDED") == 1


def test_the_page_goes_on_after_the_api_and_temporal_were_away(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 10)
    live.start_worker("first")
    with live.page(browser, "operate@shop") as page:
        live.console.kill()
        expect(page.locator("#lost")).to_be_visible()
        live.start_console()
        expect(page.locator("#lost")).to_be_hidden(timeout=LONG_MS)
        expect(page.locator(".figures").first).to_be_visible()

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


def test_a_round_is_linked_paused_resumed_cancelled_and_stopped(
    live: LiveConsole, browser: Browser, root: Path
) -> None:
    """No page of deletes begins while the round is paused, or five seconds after a stop."""
    files = dropped_table(live.rig, root, 12_000, 100, 300)
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
        page.click("text=This round in the Temporal UI")
        assert page.url.startswith(live.temporal.ui_url)
        expect(page.locator("body")).to_contain_text("recycle_range", timeout=LONG_MS)
        expect(page.locator("body")).to_contain_text("test-rig/recycle/shop")

        page.goto(address)
        page.click("#resume")
        eventually("files are deleted", lambda: _left(files) < paused_at)
        page.goto(address)
        page.click("#cancel")
        page.goto(address)
        expect(page.locator(".lead")).to_contain_text("cancelled", timeout=LONG_MS)
        cancelled_at = _left(files)
        assert cancelled_at > 0

        _start_round(page)
        eventually("files are deleted", lambda: _left(files) < cancelled_at)
        page.fill("#stop-reason", "odd deletes")
        page.click("button:has-text('Stop shop')")
        expect(page.locator(".banner")).to_contain_text("odd deletes")
        time.sleep(5)
        left = _left(files)
        time.sleep(5)
        assert _left(files) == left > 0
        page.goto("/console/log?instance=shop")
        expect(page.locator("tr", has_text="odd deletes")).to_contain_text("operate@shop")


def _plan(page: Page) -> str:
    """Make a plan on its page; return the address of the plan."""
    page.goto("/console/plans?instance=shop")
    page.click("button:has-text('Plan what is due')")
    page.wait_for_url("**/plans/*")
    return page.url


@pytest.mark.parametrize("live", [{"RECYCLE__MAX_DELETE_OBJECTS": "15"}], indirect=True)
def test_plans_are_applied_once_and_only_as_they_were_shown(live: LiveConsole, browser: Browser, root: Path) -> None:
    foreign = root / "data" / "live.dat"
    files = dropped_table(live.rig, root, 12)
    foreign.write_bytes(b"live")
    live.start_worker("first")
    with live.page(browser, "operate@shop") as ada, live.page(browser, "operate@shop") as bob:
        _plan(ada)  # its marks change
        with live.rig.db.write() as c:
            undrop(c, "shop", "dropped", ["t3"])
        ada.click("button:has-text('Delete up to 12 objects')")
        expect(ada.locator(".problem")).to_contain_text("no longer matches what is due")
        assert _left(files) == 12

        bob.goto(_plan(ada))  # two browsers approve one plan
        ada.click("button:has-text('Delete up to 11 objects')")
        expect(ada.locator(".notice")).to_be_visible()
        bob.click("button:has-text('Delete up to 11 objects')")
        by_ada = re.compile("cannot be applied: approved by token .* \\(operate@shop\\)")
        expect(bob.locator(".problem")).to_contain_text(by_ada)
        eventually("one file is left", lambda: _left(files) == 1)
        eventually("no round runs", lambda: live.rig.count("round", state="RUNNING") == 0)  # its lease would expire

        many = dropped_table(live.rig, root, 20, name="many")  # above the limit its number is typed
        address = _plan(ada)
        ada.fill("#objects", "19")
        ada.click("button:has-text('Delete up to 20 objects')")
        expect(ada.locator(".problem")).to_contain_text("20")
        assert _left(many) == 20
        ada.goto(address)
        ada.fill("#objects", "20")
        ada.click("button:has-text('Delete up to 20 objects')")
        expect(ada.locator(".notice")).to_be_visible()
        eventually("all files are deleted", lambda: not _left(many))
    assert foreign.exists()
    applied = {call.who for call in live.rig.calls.rows(0, 100) if call.action == "apply"}
    assert {"operate@shop" in who for who in applied} == {True}


def test_a_plan_is_applied_by_keyboard_and_without_scripts(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 6)
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
        eventually("all files are deleted", lambda: not _left(files))
    files = dropped_table(live.rig, root, 6, name="more")
    eventually("no round runs", lambda: live.rig.count("round", state="RUNNING") == 0)
    with live.page(browser, "operate@shop", java_script_enabled=False) as page:
        _plan(page)
        page.click("button:has-text('Delete up to 6 objects')")
        expect(page.locator(".notice")).to_contain_text("was started")
        eventually("all files are deleted", lambda: not _left(files))


def test_an_approval_ends_with_a_round_that_did_not_begin(live: LiveConsole, browser: Browser, root: Path) -> None:
    files = dropped_table(live.rig, root, 6)
    for ended_by in ("a stop", "a cancel"):
        with (
            live.page(browser, "operate@shop") as page,
            Sexton(live.url, live.token("operate@shop"), patience_seconds=PATIENCE_SECONDS) as client,
        ):
            address = _plan(page)
            page.click("button:has-text('Delete up to 6 objects')")
            expect(page.locator(".notice")).to_be_visible()
            assert approved_plans(live) == 1
            if ended_by == "a stop":
                page.click("button:has-text('Stop shop')")
                expect(page.locator(".banner")).to_be_visible()
            else:
                client.ask("round cancel", instance="shop")
            worker = live.start_worker(ended_by.replace(" ", "-"))
            eventually("no plan is approved", lambda: approved_plans(live) == 0)
            assert _left(files) == 6

            if ended_by == "a stop":
                client.start("shop")
                worker.kill()
                continue
            page.goto(address)
            page.click("button:has-text('Delete up to 6 objects')")
            eventually("all files are deleted", lambda: not _left(files))
