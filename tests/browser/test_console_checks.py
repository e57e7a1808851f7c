"""A complete check offers a repair, an incomplete one does not; a finding is accepted with a reason."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPage
from tests.integration.check.conftest import Owned, file_keys, owned

pytestmark = pytest.mark.slow

__all__ = ["owned"]


@pytest.fixture
def rig(owned: Owned) -> Owned:
    return owned


@pytest.fixture
def root(owned: Owned) -> Path:
    return owned.root


def test_only_a_complete_check_offers_a_repair(new_page: NewPage, owned: Owned) -> None:
    owned.write_live(*file_keys(200))
    for name in ("a", "b"):
        owned.write_old(f"data/t9/{name}_0.dat")
    for _ in range(2):
        owned.check()
        owned.later(2 * 86_400)
    away = owned.root.rename(owned.root.with_name("away"))
    owned.check()
    page = new_page("operate@shop")
    page.goto("/console/checks")
    expect(page.locator(".chip", has_text="incomplete")).to_have_count(1)
    assert not page.locator("button:has-text('confirmed orphan')").count()

    away.rename(owned.root)
    owned.check()
    page.goto("/console/checks")
    row = page.locator("tr", has_text="data/t9/a_0.dat")
    row.locator("summary").click()
    row.locator("input[name=reason]").fill("put there by hand")
    row.locator("button").click()
    expect(page.locator(".notice")).to_contain_text("is accepted")
    page.click("button:has-text('Mark 1 confirmed orphan')")
    expect(page.locator(".notice")).to_contain_text("marked 1 orphan")
    assert owned.count("mark", kind="orphan") == 1
    assert owned.count("finding", state="ACCEPTED") == 1

    page.goto("/console/checks")
    page.click("[aria-label=Checks] tbody a")
    expect(page.locator("[aria-label=Listings]")).to_contain_text("to its end")
    expect(page.locator("h1")).to_contain_text("Check 4")
