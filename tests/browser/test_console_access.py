"""Tokens, settings and protections are changed by those who may; binlogs name who blocks; deletions are a file."""

import io
import re

import httpx
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from sexton.client import Sexton
from sexton.operators.controls.model import ControlKind
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.browser.conftest import NewPage, NewSession
from tests.integration.protection.registrations import protect
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

KEY = "recycle.dropped_partition_retention_seconds"


def test_a_secret_is_shown_once(new_page: NewPage, api: Api, rig: Rig) -> None:
    page = new_page("admin")
    page.click("nav >> text=Access")
    page.fill("#scope", "read@shop")
    page.fill("#note", "the <b>dashboard</b>")
    page.click("text=Create the token")
    secret = page.locator("#secret").inner_text()
    [created] = [token for token in rig.all_stores.tokens.all() if token.note]
    answer = httpx.get(f"{api.url}/v1/status", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200

    reader = new_page("read")
    reader.goto("/console/log")
    expect(reader.locator("main")).to_contain_text("token create")  # a call about no instance
    page.goto("/console/access")
    expect(page.locator("main")).to_contain_text("the <b>dashboard</b>")
    assert secret not in page.content()
    page.click(f"text=Revoke {created.id}")
    expect(page.locator(".notice")).to_contain_text("is revoked")
    [revoked] = [token for token in rig.all_stores.tokens.all() if token.note]
    assert revoked.revoked_at is not None


def test_a_setting_is_previewed_then_set(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    page.goto(f"/console/settings?key={KEY}&value=1")
    expect(page.locator("main")).to_contain_text(re.compile("3600|3,600"))
    assert rig.all_stores.setting_rows.all() == []
    page.goto("/console/settings")
    page.select_option("#setting", KEY)
    page.fill("#value", "10d")
    page.click("text=Show what it changes")
    expect(page.locator("main")).to_contain_text("4 marks less")
    assert rig.all_stores.setting_rows.all() == []

    page.fill("#set-reason", "the audit")
    page.click(f"text=Set {KEY} to 10d for all instances")
    expect(page.locator(".notice")).to_contain_text(f"{KEY} is 10d")
    [row] = rig.all_stores.setting_rows.all()
    assert (row.key, row.value, row.instance, row.reason) == (KEY, "864000", "", "the audit")
    assert "operate@*" in row.set_by

    page.click("text=Remove it …")
    expect(page.locator("main")).to_contain_text("4 marks more")
    page.click("button.danger:has-text('Remove')")
    expect(page.locator(".notice")).to_contain_text(f"{KEY} is no longer set for all instances")
    assert rig.all_stores.setting_rows.all() == []


def test_settings_are_searched_and_shown_in_units(operator: NewSession) -> None:
    session = operator("read")
    page, none = session.see("settings?q=Partition retention "), session.see("settings?q=nonsense")

    assert re.search(rf"{KEY}</th><td[^>]*>3h<small>10800 seconds</small>.*floor 1h, ceiling 3650d, default 3h", page)
    assert "api.listen" not in page
    assert "No setting has nonsense in its name." in none


def test_each_scope_changes_only_what_it_may(operator: NewSession, rig: Rig) -> None:
    protect(rig, "copy:1", "data/a.dat")
    for scope in ("operate@*", "operate@shop", "read"):
        session, known = operator(scope), rig.all_stores.tokens.all()
        answers = [
            session.http.get("/console/access"),
            session.send("access/tokens", scope="admin"),
            session.send("do/token revoke", token=known[0].id),
            session.send("protections/release", job="copy:1", reason="x"),
        ]
        if scope == "read":
            answers += [session.send(f"settings/{what}", key=KEY, value="864000") for what in ("set", "unset")]

        assert {answer.status_code for answer in answers} == {403}
        assert session.http.get("/console/settings").status_code == 200
        assert {t.id for t in rig.all_stores.tokens.all() if t.revoked_at is None} == {t.id for t in known}
    assert rig.all_stores.setting_rows.all() == []
    assert rig.count("protection") == 1


def test_an_administrator_releases_a_protection(new_page: NewPage, rig: Rig) -> None:
    protect(rig, "copy:1", "data/a.dat")
    reader = new_page("operate@shop")
    reader.goto("/console/blockers")
    expect(reader.locator("main")).to_contain_text("copy:1 of ada")
    assert not reader.locator("button:has-text('Release copy:1')").count()

    page = new_page("admin")
    page.goto("/console/blockers")
    page.locator("li", has_text="copy:1 of ada").locator("input[name=reason]").fill("it hangs")
    page.click("button:has-text('Release copy:1')")
    expect(page.locator(".notice")).to_contain_text("the protection of job copy:1 of shop, owner ada, has ended")
    assert rig.count("protection") == 0


def test_a_window_is_checked_added_and_taken_off(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    for wrong in ("25:00-06:00", "never"):
        page.goto("/console/blockers")
        page.select_option("#list", "windows")
        page.fill("#entry", wrong)
        page.click("text=Add the entry")
        expect(page.locator("main")).to_contain_text("window")
        assert rig.controls.all() == ()
    page.goto("/console/blockers")
    page.select_option("#list", "windows")
    page.fill("#entry", "mon-sun 22:00-06:00")
    page.fill("#entry-reason", "quiet nights")
    page.click("text=Add the entry")
    expect(page.locator(".notice")).to_contain_text("is on the list windows")
    [window] = [c for c in rig.controls.all() if c.kind is ControlKind.WINDOW]
    assert (window.name, window.reason) == ("mon-sun 22:00-06:00", "quiet nights")

    page.click("text=Take mon-sun 22:00-06:00 off")
    expect(page.locator(".notice")).to_contain_text("is off the list windows")
    assert [c for c in rig.controls.all() if c.kind is ControlKind.WINDOW] == []


def test_a_log_names_the_consumer_that_blocks_it(new_page: NewPage, api: Api) -> None:
    client = Sexton(api.url, api.token("operate@shop"), patience_seconds=PATIENCE_SECONDS)
    client.keep_log("sales", ttl_seconds="1d")
    client.register_consumer("copy", "sales")
    page = new_page("read@shop")
    page.goto("/console/binlogs")

    expect(page.locator("[aria-label=Binlogs] tbody tr")).to_contain_text("sales")
    expect(page.locator("[aria-label=Consumers] tbody tr")).to_contain_text("copy")
    expect(page.locator("main")).to_contain_text("Every known replica is healthy")


def test_the_downloaded_rows_are_the_deleted_keys(new_page: NewPage, rig: Rig) -> None:
    worker = Rig(rig.url, audit=ParquetAudit(AuditLocations(rig.vaults, rig.registry.vaults), 400))
    report = worker.round()
    worker.db.close()
    page = new_page("read@shop")
    page.goto(f"/console/rounds/{report.round}")
    with page.expect_download() as download:
        page.click("text=Download what it deleted")
    assert download.value.suggested_filename == f"deletions-of-round-{report.round}.parquet"
    table = pq.read_table(io.BytesIO(download.value.path().read_bytes()))

    rows = {(row["key"], row["outcome"]) for row in table.to_pylist()}
    assert rows == {(key, "deleted") for key in ("data/a.dat", "data/b.dat", "data/c.dat")} | {
        (key, "deleted") for key in ("dir/x.dat", "dir/y.dat")
    }
