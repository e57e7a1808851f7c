"""Operators look, stop, hold and ask why in a browser: the page and the database say the same."""

import html
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sexton.contract import NewMark
from sexton.operators.controls.model import ControlKind, Halted
from tests.browser.conftest import NewPage, NewSession
from tests.browser.keyboard import tab_to
from tests.integration.interfaces.api.test_operating import quarantine, reasons
from tests.servers.api import Api
from tests.support.command import run
from tests.support.problems import FINE, PROBLEMS, add_problems
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

PAGES = (
    *("", "plans", "blockers", "rounds", "why?key=a", "quarantine", "checks", "vaults"),
    *("topics", "binlogs", "settings", "operations", "log"),
)
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "{{ 7 * 7 }}",
    "\u202egpj.exe",
    "a\u0007b",
    "'; DROP TABLE mark; --",
)


def _stops(rig: Rig) -> list[Any]:
    return [c for c in rig.controls.all() if c.kind is ControlKind.STOP]


def _expect_figure(page: Page, name: str, value: str) -> None:
    of_name = page.locator(".figures div", has=page.locator(f"dt:text-is('{name}')"))
    expect(of_name.locator("dd")).to_have_text(re.compile(rf"^\s*{value}(?!\d)"))


def test_each_figure_of_the_overview_equals_the_status(
    new_page: NewPage, rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    overview = new_page()
    _expect_figure(overview, "Due", "4")
    rig.mark("dropped", NewMark(id="late", vault="disk", keys=("data/late.dat",), bytes=2**30))
    _expect_figure(overview, "Marked", "5")  # without a reload
    _expect_figure(overview, "Due", "4")
    rig.round()
    names = [f"n{n}" for n in range(6)]
    rig.mark("dropped", *(NewMark(id=n, vault="disk", keys=(f"data/{n}",), bytes=2**30) for n in names))
    quarantine(rig, "BAD_KEY", "q1", "q2")
    rig.later(10_801)
    with rig.db.write() as c:
        t = rig.db.t.mark
        claimed = {"state": "CLAIMED", "batch": 1, "last_file": 1, "claimed_batch": 1, "claimed_at": rig.db.now(c)}
        c.execute(t.update().where(t.c.id == "n1").values(**claimed))
    page = new_page("operate@shop")
    page.goto("/console/blockers")
    page.fill("#hold-reason", "an audit")
    page.click("text=Place the hold")
    page.goto("/console")

    [said] = json.loads(run(rig, capsys, "status", "--json").out)["instances"]
    due = sum(kind["due"] for kind in said["kinds"])
    due_bytes = sum(kind["due_bytes"] for kind in said["kinds"])
    for name, value in {
        "Due": due,
        "Marked": sum(kind["waiting"] for kind in said["kinds"]),
        "Claimed": said["claimed"],
        "Quarantined": sum(said["quarantined"].values()),
        "Holds": said["holds"],
        "Protections": said["protections"],
    }.items():
        _expect_figure(page, name, f"{value:,}")
    assert (due, said["claimed"], said["holds"], due_bytes) == (6, 2, 1, 6 * 2**30)  # one waits for its second pass
    _expect_figure(page, "Due", re.escape("6 6.0 GiB, 0.14 USD a month"))
    _expect_figure(page, "Last success", ".* ago")


def test_the_overview_has_the_sentence_and_order_of_the_status(
    operator: NewSession, rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.interfaces.console.latest.FIRST_SECONDS", 30.0)
    add_problems(rig)

    page = html.unescape(operator("operate@*").see())
    cards = re.findall(r'<h2 id="i-\d+"><a [^>]*>([^<]+)</a>(.*?)</h2>', page, re.DOTALL)

    assert json.loads(run(rig, capsys, "status", "--json").out)["sentence"] in page
    assert [name for name, _ in cards] == [*PROBLEMS, *FINE]
    chips = {name: re.findall(r"</svg>\s*([a-z ]+)</span>", of) for name, of in cards}
    words = {name: [severity.name.lower()] for name, severity in PROBLEMS.items()}
    assert chips == words | {name: ["idle"] for name in FINE}
    assert "<strong>vault disk: DENIED</strong>" in page
    assert "All is well: the next round, of shop, is due at" in operator("read@shop").see()


def test_one_click_stops_and_start_asks(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.goto("/console/vaults")
    page.fill("#stop-reason", "odd deletes")
    page.click("button:has-text('Stop shop')")
    expect(page.locator(".banner")).to_contain_text("odd deletes")
    [stop] = _stops(rig)
    assert (stop.name, stop.reason) == ("shop", "odd deletes")
    assert "operate@shop" in stop.set_by
    with pytest.raises(Halted):
        rig.round()

    page.click("text=Start again")
    expect(page.locator("main")).to_contain_text("4 marks due")
    assert _stops(rig)
    page.click("button:has-text('Start deletion in shop')")
    expect(page.locator(".notice")).to_contain_text("shop is started again")
    assert not _stops(rig)
    page.goto("/console/log")
    expect(page.locator("main")).to_contain_text("odd deletes")


def test_a_mark_is_given_up_with_a_reason(new_page: NewPage, rig: Rig) -> None:
    quarantine(rig, "ACCESS_DENIED", "q1", "q2")
    page = new_page("operate@shop")
    page.goto("/console/quarantine")
    row = page.locator("tr", has_text="q1")
    row.locator("summary").click()
    row.locator("input[name=reason]").fill("kept by hand")
    row.locator("button").click()
    expect(page.locator("main")).to_contain_text("dropped/q1 of shop")
    assert reasons(rig) == {"q1": "ACCESS_DENIED", "q2": "ACCESS_DENIED"}
    page.click("button:has-text('Yes: quarantine discard')")
    expect(page.locator(".notice")).to_contain_text("is given up")
    assert "/quarantine" in page.url
    assert reasons(rig) == {"q2": "ACCESS_DENIED"}


def test_hostile_names_stay_text(new_page: NewPage, rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=f"n{n}", vault="disk", keys=(f"data/{name}",)) for n, name in enumerate(HOSTILE)))
    page = new_page("operate@shop")
    errors: list[str] = []
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("dialog", lambda d: errors.append(d.message))
    for name in HOSTILE:
        page.goto("/console/why")
        page.fill("#key", f"data/{name}".replace("\a", ""))
        page.click("text=Explain")
    page.goto("/console/plans")
    page.click("text=Plan what is due now")
    page.fill("#stop-reason", " ".join(HOSTILE).replace("\a", ""))
    page.click("button:has-text('Stop shop')")
    page.wait_for_load_state()
    for path in PAGES:
        page.goto(f"/console/{path}" if path else "/console")
        assert page.title().endswith("Sexton")
        assert not page.locator("main script, main img").count()
        assert "\u202e" not in page.content()
    assert not errors


def test_the_page_says_that_no_answer_comes(new_page: NewPage, api: Api) -> None:
    page = new_page()
    page.route("**/console*", lambda route: route.abort())
    expect(page.locator("#lost")).to_contain_text("No answer since")
    _expect_figure(page, "Due", "4")
    page.unroute("**/console*")
    expect(page.locator("#lost")).to_be_hidden()


def test_an_ended_session_leads_to_the_login_and_back(new_page: NewPage, api: Api) -> None:
    page = new_page()
    page.goto("/console/vaults?instance=shop")
    page.context.clear_cookies()
    page.goto("/console/vaults?instance=shop")
    expect(page.locator("h1")).to_contain_text("Sexton")
    page.fill("#token", api.token("read@shop"))
    page.click("button:has-text('Log in')")
    assert page.url.endswith("/console/vaults?instance=shop")


def test_a_page_that_is_read_says_that_it_is_old(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.click("#live details summary")
    rig.controls.put(ControlKind.STOP, "shop", "odd deletes", by="eve")
    expect(page.locator("#lost")).to_contain_text("Not renewed while you read it")
    expect(page.locator("#banners")).to_contain_text("odd deletes")
    page.click("#live details summary")
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("#live")).to_contain_text("halted")


def test_keyboard_alone_holds_releases_and_stops(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.goto("/console/blockers")
    tab_to(page, "a mark")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    for field, text in (("mark", "dropped/a"), ("hold-reason", "an audit")):
        tab_to(page, field)
        page.keyboard.type(text)
    tab_to(page, "Place the hold")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("hold 1 blocks dropped a")
    assert rig.round().deleted == 4
    assert rig.row("dropped", "a").state == "MARKED"

    tab_to(page, "Release hold 1")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("has ended")
    assert rig.round().deleted == 1

    page.goto("/console/plans")
    tab_to(page, "stop-reason")
    page.keyboard.type("by hand")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".banner")).to_be_visible()
    assert [stop.reason for stop in _stops(rig)] == ["by hand"]


def test_without_scripts_forms_work(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop", java_script_enabled=False)
    page.click("button:has-text('Stop shop')")
    assert len(_stops(rig)) == 1
    page.click("text=Start again")
    page.click("button:has-text('Start deletion in shop')")
    assert not _stops(rig)

    page.goto("/console/why")
    page.fill("#key", "data/a.dat")
    page.click("text=Explain")
    assert "marked dropped" in page.inner_text(".timeline")

    page.goto("/console/blockers")
    page.fill("#hold-reason", "an audit")
    page.click("text=Place the hold")
    assert "Hold 1" in page.inner_text("main")


def test_a_reader_is_offered_no_change_and_no_other_instance(new_page: NewPage, rig: Rig) -> None:
    other = Rig(rig.url)
    other.instance("depot")
    other.db.close()
    rig.controls.put(ControlKind.STOP, "shop", "odd deletes", by="eve")
    reader = new_page("read@shop")
    expect(reader.locator(".banner")).to_contain_text("odd deletes")
    for path in PAGES:
        reader.goto(f"/console/{path}" if path else "/console")
        assert not reader.locator("main form[method=post], .stop").count()
        assert not reader.locator("text=Start again").count()
        assert "depot" not in reader.content()
    refused = [reader.goto(f"/console/{path}") for path in ("plans?instance=depot", "start?instance=shop")]
    assert [answer.status for answer in refused if answer] == [403, 403]


def test_rounds_are_paged_and_only_a_running_one_is_signalled(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.goto("/console/rounds")
    page.click("text=Start a round now")
    expect(page.locator(".problem")).to_contain_text("Temporal")  # which is away
    assert not rig.count("round")

    t = rig.db.t.round
    with rig.db.write() as c:
        rows = [{"instance": "shop", "run_id": f"r{n}", "state": "FAILED", "started_at": n} for n in range(1, 26)]
        c.execute(t.insert(), rows)
        c.execute(t.update().where(t.c.id == 25).values(state="RUNNING"))
    page.goto("/console/rounds")
    expect(page.locator("tbody th").first).to_have_text("25")
    page.click("text=Older")
    expect(page.locator("tbody th").first).to_have_text("5")
    assert page.locator("#live, [hx-get*=rounds]").count() == 0

    page.goto("/console/rounds/25")
    page.route("**/console/rounds/25**", lambda route: route.abort())  # the page stays as it is
    with rig.db.write() as c:
        c.execute(t.update().where(t.c.id == 25).values(state="SUCCEEDED", ended_at=rig.db.now(c)))
    page.click("text=Cancel round 25")
    expect(page.locator(".problem")).to_contain_text("round 25 of shop does not run now")
