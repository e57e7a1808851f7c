"""Vaults, topics and binlogs in a browser: the pace of a vault, who blocks a topic, and a cut that needs an answer."""

import pytest
from playwright.sync_api import Page, expect

from sexton.replication.binlog.model import BinlogSettings
from sexton.storage.kinds import vault_place
from tests.browser.conftest import NewPage
from tests.integration.recycle.pacing.test_shared_rates import exchange, pace_report
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.support.rig import Rig
from tests.support.topics import make_topic, map_regions

pytestmark = pytest.mark.slow

DAY = 86_400


def _actions(rig: Rig) -> list[tuple[str, str]]:
    return [(call.action, call.subject) for call in rig.calls.rows(0, 100)]


def test_the_pace_of_a_vault_falls_is_capped_and_probed(new_page: NewPage, rig: Rig) -> None:
    [spec] = rig.registry.vaults("shop")
    place, store = vault_place(spec, ""), rig.all_stores.paces
    first = exchange(store, "w", pace_report(3_600, place=place)).shared[place]
    page = new_page()
    page.goto("/console/vaults")
    allowed = page.locator("[aria-label=Pace] tbody td.n").first
    expect(allowed).to_have_text("3,600")

    rig.later(1)
    exchange(store, "w", pace_report(900, first, cut=True, place=place, throttled=7))
    expect(allowed).to_have_text("900")  # without a reload
    expect(page.locator("[aria-label=Pace] tbody tr")).to_contain_text("7")
    expect(page.locator("#rate canvas")).to_be_visible()

    page.fill("#cap-1", "250")
    page.click("text=Set the cap")
    expect(page.locator(".notice")).to_contain_text("shop/disk is deleted from at 250 keys/s at most")
    page.click("text=Probe disk again")
    expect(page.locator(".notice")).to_contain_text("was probed")
    assert [cap.keys_per_second for cap in store.caps("shop")] == [250]
    [spec] = rig.registry.vaults("shop")
    assert spec.probe is not None
    assert ("vault probe", "disk") in _actions(rig)


def test_a_cap_that_is_set_during_a_round_is_drawn(new_page: NewPage, rig: Rig) -> None:
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    page = new_page()
    page.goto(f"/console/rounds/{opened.round}?instance=shop")
    expect(page.locator("#rate .u-legend")).to_be_visible()
    expect(page.locator("#rate .u-legend")).not_to_contain_text("allowed")

    rig.all_stores.paces.put_cap("shop/disk", 100)

    expect(page.locator("#rate .u-legend")).to_contain_text("allowed")
    expect(page.locator("#live")).to_contain_text("at most 100 keys per second, its cap")


def test_an_administrator_trusts_a_vault_after_a_restore(new_page: NewPage, rig: Rig) -> None:
    vault = rig.vaults.get("shop", "disk")
    marker = vault.read_marker()
    assert marker is not None
    vault.replace_marker(marker.model_copy(update={"round": 99, "run": "elsewhere"}))
    operator = new_page("operate@shop")
    operator.goto("/console/vaults?prove=true")
    expect(operator.locator("text=Let this database delete")).to_have_count(0)
    page = new_page("admin")
    page.goto("/console/vaults?prove=true")
    expect(page.locator(".problem")).to_contain_text("BEHIND")
    page.fill("#trust-1", "the copy was never used")
    page.click("text=Let this database delete in disk again")
    expect(page.locator("main")).to_contain_text("round 99 deleted in disk")
    page.click("button:has-text('Yes: vault trust')")
    expect(page.locator(".notice")).to_contain_text("belongs to this database again")

    trusted = vault.read_marker()
    assert trusted is not None
    assert trusted.round == 0
    page.goto("/console/vaults?prove=true")
    expect(page.locator(".chip")).to_contain_text("proved just now")


def test_a_topic_names_its_blockers_and_is_enabled_and_reset(new_page: NewPage, rig: Rig) -> None:
    wal = rig.all_stores.wal
    map_regions(rig.db, "unknown", ())
    page = new_page()
    page.goto("/console/topics/unknown")  # the log lacks it
    page.click("text=Purge it from now on")
    expect(page.locator(".problem")).to_contain_text("unknown")
    assert not wal.store.topic("unknown").enabled

    make_topic(rig.db, "orders", 100, {"r1": 40, "r2": 10}, enabled=False)
    wal.purger.preview(["orders"])  # as a worker does: now the end of the log is known
    page.goto("/console/topics")
    page.click("text=orders")
    expect(page.locator("[aria-label=Regions] tbody tr").first).to_contain_text("r2")
    page.click("text=Purge it from now on")
    expect(page.locator(".notice")).to_contain_text("is purged from now on")
    assert wal.store.topic("orders").enabled
    page.click("text=Stop purging it")
    expect(page.locator(".notice")).to_contain_text("no longer purged")
    assert not wal.store.topic("orders").enabled
    assert {("wal enable", "orders"), ("wal disable", "orders")} <= set(_actions(rig))

    page.goto("/console/operations")  # an operation without a page has a form there
    expect(page.locator("summary").first).to_be_visible()
    expect(page.locator("button:has-text('Wal reset')")).to_have_count(0)
    admin = new_page("admin")
    admin.goto("/console/operations")
    admin.click("summary:has-text('wal reset')")
    admin.fill("#wal-reset-topic", "orders")
    admin.fill("#wal-reset-region", "r2")
    admin.fill("#wal-reset-reason", "the gap is accepted")
    admin.click("button:has-text('Wal reset')")
    expect(admin.locator("main")).to_contain_text("Give up the entries that region r2 of topic orders is missing?")
    assert ("wal reset", "orders r2") not in _actions(rig)
    admin.click("button:has-text('Yes: wal reset')")
    expect(admin.locator(".notice")).to_contain_text("region r2 needs topic orders from entry")
    assert ("wal reset", "orders r2") in _actions(rig)


@pytest.fixture
def waiting_cut(rig: Rig) -> BinlogInstance:
    """Let a cut of five records wait for an answer."""
    binlogs = BinlogInstance(rig.db, BinlogSettings(free_records=3))
    binlogs.configure_log(DAY)
    for seq in range(1, 6):
        binlogs.commit(seq, binlogs.now - 2 * DAY * 1000)
    binlogs.commit(6)
    binlogs.cut_expired()
    assert binlogs.log().awaiting_seq == 5
    return binlogs


def _approve(page: Page, typed: str) -> None:
    page.goto("/console/binlogs")
    page.fill("[name=typed]", typed)
    page.click("text=Delete records up to 5")


def test_a_large_cut_needs_its_number_typed(new_page: NewPage, waiting_cut: BinlogInstance) -> None:
    page, other = new_page(), new_page()
    other.goto("/console/binlogs")
    _approve(page, "6")
    expect(page.locator(".problem")).to_contain_text("type the number of its last record: 5")
    assert waiting_cut.log().awaiting_seq == 5

    _approve(page, "5")
    expect(page.locator(".notice")).to_contain_text("approved up to 5")
    assert waiting_cut.service.configs.log(SHOP, DB).approved == 5
    other.fill("[name=typed]", "5")
    other.click("text=Delete records up to 5")
    expect(other.locator(".problem")).to_contain_text("waits for approval")
