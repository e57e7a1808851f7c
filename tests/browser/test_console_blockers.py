"""Protections and lists are ended and changed by those who may; binlogs name who blocks; deletions are a file."""

import io

import httpx
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from sexton.client import Sexton
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.browser.conftest import NewPage
from tests.browser.test_console_guards import PATH, _token
from tests.integration.protection.registrations import protect
from tests.servers.api import Api
from tests.support.rig import Rig


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
    expect(page.locator(".notice")).to_contain_text("copy:1 has ended")
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
    expect(page.locator(".notice")).to_contain_text("no longer on the list")
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
