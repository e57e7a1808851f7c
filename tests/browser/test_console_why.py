"""The page tells of keys and marks in every state what `sexton why` tells; that of a plan what it counts and lists."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from sexton.contract import NewMark
from sexton.marks.model import Ref
from sexton.operators.controls.model import ControlKind
from tests.browser.conftest import NewPage
from tests.integration.interfaces.api.test_operating import quarantine
from tests.integration.protection.registrations import protect
from tests.support.command import run
from tests.support.rig import Rig, put

pytestmark = pytest.mark.slow

NAMES = (
    *("data/a.dat", "a", "file:data/a.dat", "data/late.dat", "data/held.dat", "data/protected.dat"),
    *("q1", "q2", "old/x.dat", "due", "fenced", "capped", "nothing/known.dat"),
)


def _in_many_states(rig: Rig, root: Path) -> None:
    """Leave marks that are deleted, held, protected, quarantined, discarded, fenced, capped, and not due."""
    rig.round()
    for name in ("held", "protected", "due", "fenced", "capped", "late"):
        put(root, f"data/{name}.dat")
        if name == "late":
            rig.later(10_801)
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=(f"data/{name}.dat",)))
    rig.mark("dropped", NewMark(id="old", vault="disk", prefix="old/"))
    quarantine(rig, "ACCESS_DENIED", "q1", "q2")
    rig.stores.quarantine.discard("shop", Ref("dropped", "q2"), "kept by hand", ())
    protect(rig, "copy:1", "data/protected.dat")
    mark = rig.db.t.mark
    with rig.db.write() as c:
        c.execute(update(mark).where(mark.c.id == "fenced").values(state="FENCED"))
    rig.all_stores.paces.put_cap("shop/disk", 500, "the bucket is shared", "eve")
    rig.controls.put(ControlKind.STOP, "shop", "odd deletes", "eve")


def test_the_page_tells_what_the_command_tells(
    new_page: NewPage, rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_many_states(rig, root)
    page = new_page("read@shop")
    told = {}
    for name in NAMES:
        page.goto("/console/why?instance=shop")
        page.fill("#key", name)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        expect(page.locator("#key")).to_have_value(name)
        told[name] = page.locator(".timeline .what").all_inner_texts()
    for name in NAMES:
        printed = run(rig, capsys, "why", name, "--instance", "shop", "--json")
        stories = json.loads(printed.out)["items"] if printed.out else []
        texts = [event["text"] for story in stories for event in story["events"]]
        assert [text.strip() for text in told[name]] == texts, name
    assert sum(map(bool, told.values())) >= 10


def test_a_plan_counts_what_a_hold_blocks_too(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.goto("/console/blockers?hold=mark")
    page.fill("#mark", "dropped/a")
    page.fill("#hold-reason", "an audit")
    page.click("text=Place the hold")
    page.goto("/console/plans")
    page.click("text=Plan what is due now")
    button = page.locator("section.actions button.danger")
    expect(button).to_contain_text("Delete all that 4 marks name: perhaps 13 objects, or many more")
    expect(page.locator(".figures")).to_contain_text("and 1 that holds blocked")


def test_the_marks_of_a_plan_are_searched_by_their_keys(new_page: NewPage, rig: Rig) -> None:
    many = [NewMark(id=f"m{n:02}", vault="disk", keys=(f"tables/orders/{n}.dat",)) for n in range(25)]
    rig.mark("dropped", *many)
    rig.later(10_801)
    page = new_page("operate@shop")
    page.goto("/console/plans")
    page.click("text=Plan what is due now")
    page.fill("#under", "tables/orders/1")
    page.click("text=Search")
    rows = page.locator("[aria-label=Marks] tbody tr")
    expect(rows).to_have_count(11)
    expect(page.locator("footer")).to_contain_text("sexton plan marks 1 --under tables/orders/1")
    page.fill("#under", "disk/tables/")
    page.click("text=Search")
    expect(rows).to_have_count(20)
    page.click("text=The next marks")
    expect(rows).to_have_count(5)
    page.fill("#under", "elsewhere/")
    page.click("text=Search")
    expect(page.locator(".empty")).to_contain_text("No mark of the plan that is due now names a key or a prefix there")
