"""A form means what its page showed, also blanks around a name; the page after an action shows nothing from before."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.replication.binlog.model import LogRetention
from tests.browser.conftest import NewPage
from tests.browser.test_console_guards import PATH, _token
from tests.servers.api import Api
from tests.support.rig import Rig, put

pytestmark = pytest.mark.slow


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=api.url, timeout=30) as client:
        client.post(f"{PATH}/login", data={"token": api.token("operate@shop"), "form_token": _token(client)})
        yield client


@pytest.mark.parametrize("folder", [" old/", "\u3000old/", "\u00a0old/"])
def test_a_hold_is_placed_on_the_prefix_as_it_was_written(
    client: httpx.Client, rig: Rig, root: Path, folder: str
) -> None:
    key = f"{folder}a.dat"
    put(root, key)
    rig.mark("dropped", NewMark(id="blank", vault="disk", keys=(key,)))
    rig.later(10_801)
    hold = {
        "instance": "shop",
        "scope": "prefix",
        "vault": "disk",
        "prefix": folder,
        "seconds": " 3d ",
        "reason": " keep ",
    }
    placed = client.post(f"{PATH}/holds", data=hold | {"form_token": _token(client, f"{PATH}/blockers")})
    rig.round()

    assert placed.status_code == 303
    assert [(h.prefix, h.reason) for h in rig.holds.active("shop")] == [(folder, "keep")]
    assert (root / key).exists()


@pytest.mark.parametrize(("db", "table"), [("sales ", ""), ("sales", " ")])
def test_a_button_approves_the_cut_of_its_own_binlog(
    client: httpx.Client, api: Api, rig: Rig, db: str, table: str
) -> None:
    configs = api.app.state.service.stores.binlogs.configs
    for name in (("sales", ""), (db, table)):
        configs.put("shop", *name, LogRetention(ttl_seconds=60))
    t = rig.db.t.binlog_log
    with rig.db.write() as c:
        c.execute(t.update().values(awaiting_seq=1_000))
        c.execute(t.update().where(t.c.db == db, t.c.tbl == table).values(awaiting_seq=900))
    page = client.get(f"{PATH}/binlogs").text
    forms = re.findall(r'<form method="post" action="/console/binlogs/approve".*?</form>', page, re.DOTALL)
    fields = [dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)) for form in forms]
    [form] = [of for of in fields if of["upto"] == "900"]
    sent = {name: html.unescape(value) for name, value in form.items()} | {"typed": "900"}
    client.post(f"{PATH}/binlogs/approve", data=sent)
    with rig.db.read() as c:
        waiting = {(row.db, row.tbl): row.awaiting_seq for row in c.execute(select(t))}

    assert waiting["sales", ""] == 1_000
    assert waiting[db, table] is None


@pytest.mark.parametrize(
    ("hold", "says"),
    [
        ({"scope": "prefix", "vault": " disk ", "prefix": "t/ordres/"}, "will be kept only if files are there"),
        ({"scope": "prefix", "vault": "disk", "prefix": "nowhere/"}, "check the spelling"),
        ({"scope": "prefix", "vault": "disk", "prefix": "t/"}, "it covers 1 mark now"),
        ({"scope": "mark", "mark": "dropped/whole ", "vault": " ", "prefix": " "}, "check its spelling"),
        ({"scope": "mark", "mark": "dropped/whole"}, "it covers 1 mark now"),
        ({"scope": "instance", "vault": " "}, "it covers"),
    ],
)
def test_a_hold_says_what_it_covers(client: httpx.Client, rig: Rig, hold: dict[str, str], says: str) -> None:
    rig.mark("dropped", NewMark(id="whole", vault="disk", prefix="t/"))
    form = {"instance": "shop", "seconds": "3d", "reason": "keep", "form_token": _token(client, f"{PATH}/blockers")}
    placed = client.post(f"{PATH}/holds", data=form | hold, follow_redirects=True)
    notice = re.search(r'<p class="notice.*?</p>', placed.text, re.DOTALL)

    assert notice is not None
    assert says in notice[0]
    assert ("notice ask" in notice[0]) == ("it covers" not in says)
    assert len(rig.holds.active("shop")) == 1


def test_a_hold_of_no_kind_or_two_is_refused(client: httpx.Client, rig: Rig) -> None:
    for hold in [
        {"scope": "mark", "mark": "dropped/whole", "prefix": "legal/"},
        {"scope": "prefix", "vault": "disk", "prefix": "t/", "mark": "whole"},
        {"scope": "instance", "vault": "disk", "prefix": "t/"},
        {"scope": "mark"},
        {"scope": ""},
    ]:
        form = {"instance": "shop", "seconds": "3d", "reason": "keep", "form_token": _token(client, f"{PATH}/blockers")}
        answer = client.post(f"{PATH}/holds", data=form | hold)

        assert answer.status_code == 422
        assert "nothing is held yet" in answer.text
        assert not rig.holds.active("shop")


@pytest.mark.parametrize("key", [" old/a.dat", "b.dat "])
def test_why_is_asked_about_the_key_as_it_was_written(client: httpx.Client, rig: Rig, key: str) -> None:
    rig.mark("dropped", NewMark(id="blank", vault="disk", keys=(" old/a.dat", "b.dat ")))

    page = client.get(f"{PATH}/why", params={"key": key, "instance": "shop"}).text

    assert "dropped/blank" in page or "dropped blank" in page


def test_a_refused_hold_can_be_corrected_after_going_back(new_page: NewPage, rig: Rig) -> None:
    typed = {"mark": "dropped/whole", "vault": "disk", "prefix": "legal/", "seconds": "30d", "hold-reason": "a court"}
    page = new_page("operate@shop")
    page.goto("/console/blockers?instance=shop")
    page.select_option("#scope", "prefix")
    for field, text in typed.items():
        page.fill(f"#{field}", text)
    page.get_by_role("button", name="Place the hold").click()
    refused = page.inner_text("main")
    page.go_back()
    page.wait_for_load_state()

    assert "nothing is held yet" in refused
    assert {field: page.input_value(f"#{field}") for field in typed} == typed
    assert not rig.holds.active("shop")


def test_the_overview_after_a_stop_and_a_start_is_true(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.interfaces.console.latest.WAIT_SECONDS", 0.0)  # older answers whenever they are known
    monkeypatch.setattr("sexton.interfaces.console.latest.FIRST_SECONDS", 30.0)
    stop = "stop the whole instance"
    with httpx.Client(base_url=api.url, timeout=60, follow_redirects=True) as client:
        client.post(f"{PATH}/login", data={"token": api.token("operate@shop"), "form_token": _token(client)})
        form = {"instance": "shop", "form_token": _token(client, PATH)}
        before = _text(client.get(PATH).text)
        stopped = _text(client.post(f"{PATH}/stop", data=form | {"reason": "zebra"}).text)
        page = client.get(f"{PATH}/start?instance=shop").text
        shown = html.unescape(re.findall(r'name="stop" value="([^"]*)"', page)[0])
        started = _text(client.post(f"{PATH}/start", data=form | {"stop": shown}).text)

    assert [stop in text for text in (before, stopped, started)] == [False, True, False]
    assert "zebra" in stopped
    assert "zebra" not in started


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.unescape(page))).replace(" :", ":")
