"""The page of a plan: what it counts, and which of its marks it lists."""

from playwright.sync_api import expect

from sexton.contract import NewMark
from tests.browser.conftest import NewPage
from tests.support.rig import Rig


def test_a_plan_counts_what_a_hold_blocks_too(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@shop")
    page.goto("/console/blockers")
    page.select_option("#scope", "mark")
    page.fill("#mark", "dropped/a")
    page.fill("#hold-reason", "an audit")
    page.click("text=Place the hold")
    page.goto("/console/plans")
    page.click("text=Plan what is due now")
    button = page.locator("section.actions button.danger")
    expect(button).to_contain_text("Delete up to about 13 objects")
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
