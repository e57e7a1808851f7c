"""Administrators manage tokens, operators change settings with a preview, and everybody else is refused."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from sexton.client import Sexton
from sexton.operators.access.sql.tokens import TokenStore
from sexton.operators.settings.store import SettingStore
from tests.browser.conftest import NewPage
from tests.browser.test_console_guards import PATH, _token
from tests.servers.api import Api
from tests.support.rig import Rig

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
    expect(page.locator(".notice")).to_contain_text("4 marks more will be due")
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
