"""Tokens, settings and protections are changed by those who may; binlogs name who blocks; deletions are a file."""

import io
import re

import httpx
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from sexton.client import Sexton
from sexton.operators.access.store import TokenStore
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.operators.settings.store import SettingStore
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.browser.conftest import NewPage
from tests.browser.test_console_guards import PATH, _token
from tests.integration.protection.registrations import protect
from tests.servers.api import Api
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
    [created] = [token for token in TokenStore(rig.db).all() if token.note]
    answer = httpx.get(f"{api.url}/v1/status", headers={"Authorization": f"Bearer {secret}"}, timeout=60)
    assert answer.status_code == 200

    page.goto("/console/access")
    expect(page.locator("main")).to_contain_text("the <b>dashboard</b>")
    assert secret not in page.content()
    page.click(f"text=Revoke {created.id}")
    expect(page.locator(".notice")).to_contain_text("is revoked")
    [revoked] = [token for token in TokenStore(rig.db).all() if token.note]
    assert revoked.revoked_at is not None


def test_a_setting_is_previewed_then_set(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    page.goto("/console/settings")
    page.select_option("#setting", KEY)
    page.fill("#value", "864000")
    page.click("text=Show what it changes")
    expect(page.locator("main")).to_contain_text("4 marks less")
    assert SettingStore(rig.db).all() == []

    page.fill("#set-reason", "the audit")
    page.click(f"text=Set {KEY} to 864000 for all instances")
    expect(page.locator(".notice")).to_contain_text(f"{KEY} is 864000")
    [row] = SettingStore(rig.db).all()
    assert (row.key, row.value, row.instance, row.reason) == (KEY, "864000", "", "the audit")
    assert "operate@*" in row.set_by

    page.click("text=Remove it …")
    expect(page.locator("main")).to_contain_text("4 marks more")
    page.click("button.danger:has-text('Remove')")
    expect(page.locator(".notice")).to_contain_text(f"{KEY} is no longer set for all instances")
    assert SettingStore(rig.db).all() == []


def test_a_stale_preview_is_refused(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    page.goto(f"/console/settings?key={KEY}&value=7200")
    SettingStore(rig.db).put(KEY, "8640000", reason="legal hold", by="bob")
    page.click("text=to 7200 for all instances")
    expect(page.locator("main")).to_contain_text("look at what it changes again")
    [row] = SettingStore(rig.db).all()
    assert row.value == "8640000"


def test_the_log_shows_calls_about_no_instance(new_page: NewPage, api: Api) -> None:
    Sexton(api.url, api.token("admin"), patience_seconds=5).create_token(scope="read", note="for the log")
    page = new_page("read")
    page.goto("/console/log")
    expect(page.locator("main")).to_contain_text("token create")


def test_a_value_out_of_bounds_is_refused(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    page.goto(f"/console/settings?key={KEY}&value=1")
    expect(page.locator("main")).to_contain_text(re.compile("3600|3,600"))
    assert SettingStore(rig.db).all() == []


@pytest.mark.parametrize("scope", ["operate@*", "operate@shop", "read"])
def test_who_is_no_administrator_makes_no_token(api: Api, rig: Rig, scope: str) -> None:
    with httpx.Client(base_url=api.url, timeout=60) as client:
        client.get(f"{PATH}/login")
        client.post(f"{PATH}/login", data={"token": api.token(scope), "form_token": _token(client)})
        known = TokenStore(rig.db).all()
        form = {"form_token": _token(client, PATH)}
        answers = [
            client.get(f"{PATH}/access"),
            client.post(f"{PATH}/access/tokens", data=form | {"scope": "admin"}),
            client.post(f"{PATH}/do/token revoke", data=form | {"token": known[0].id}),
        ]
        settings = client.get(f"{PATH}/settings")

    assert [answer.status_code for answer in answers] == [403] * 3
    assert settings.status_code == 200
    assert {t.id for t in TokenStore(rig.db).all() if t.revoked_at is None} == {t.id for t in known}


def test_who_only_reads_sets_nothing(api: Api, rig: Rig) -> None:
    with httpx.Client(base_url=api.url, timeout=60) as client:
        client.get(f"{PATH}/login")
        client.post(f"{PATH}/login", data={"token": api.token("read"), "form_token": _token(client)})
        form = {"form_token": _token(client, PATH), "key": KEY, "value": "864000"}
        answers = [client.post(f"{PATH}/settings/{what}", data=form) for what in ("set", "unset")]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert SettingStore(rig.db).all() == []


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


def test_an_operator_does_not_release_a_protection(api: Api, rig: Rig) -> None:
    protect(rig, "copy:1", "data/a.dat")
    with httpx.Client(base_url=api.url, timeout=60) as client:
        client.get(f"{PATH}/login")
        client.post(f"{PATH}/login", data={"token": api.token("operate@shop"), "form_token": _token(client)})
        form = {"form_token": _token(client, PATH), "instance": "shop", "job": "copy:1", "reason": "x"}
        answer = client.post(f"{PATH}/protections/release", data=form)

    assert answer.status_code == 403
    assert rig.count("protection") == 1


def test_a_window_is_added_and_taken_off(new_page: NewPage, rig: Rig) -> None:
    page = new_page("operate@*")
    page.goto("/console/blockers")
    page.select_option("#list", "windows")
    page.fill("#entry", "mon-sun 22:00-06:00")
    page.fill("#entry-reason", "quiet nights")
    page.click("text=Add the entry")
    expect(page.locator(".notice")).to_contain_text("is on the list windows")
    [window] = [c for c in ControlStore(rig.db).all() if c.kind is ControlKind.WINDOW]
    assert (window.name, window.reason) == ("mon-sun 22:00-06:00", "quiet nights")

    page.click("text=Take mon-sun 22:00-06:00 off")
    expect(page.locator(".notice")).to_contain_text("is off the list windows")
    assert [c for c in ControlStore(rig.db).all() if c.kind is ControlKind.WINDOW] == []


@pytest.mark.parametrize("entry", ["25:00-06:00", "never"])
def test_a_wrong_window_is_refused(new_page: NewPage, rig: Rig, entry: str) -> None:
    page = new_page("operate@*")
    page.goto("/console/blockers")
    page.select_option("#list", "windows")
    page.fill("#entry", entry)
    page.click("text=Add the entry")
    expect(page.locator("main")).to_contain_text("window")
    assert [c for c in ControlStore(rig.db).all() if c.kind is ControlKind.WINDOW] == []


def test_a_log_names_the_consumer_that_blocks_it(new_page: NewPage, api: Api) -> None:
    client = Sexton(api.url, api.token("operate@shop"), patience_seconds=5)
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
