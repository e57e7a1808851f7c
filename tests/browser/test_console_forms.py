"""A form means what its page showed, also to two operators, with blanks in names, and beside other tenants."""

import html
import re
from pathlib import Path

import httpx
import pytest

from sexton.contract import NewMark
from sexton.operators.controls.model import ControlKind, ListName
from sexton.replication.binlog.model import LogRetention
from tests.browser.conftest import NewPage, NewSession
from tests.integration.interfaces.api.test_operating import quarantine, reasons
from tests.integration.protection.registrations import protect
from tests.servers.api import Api
from tests.support.eventually import eventually
from tests.support.rig import Rig, put
from tests.support.topics import map_regions

pytestmark = pytest.mark.slow


def _stops(rig: Rig) -> list[str]:
    return [c.reason for c in rig.controls.all() if c.kind is ControlKind.STOP]


def test_an_order_ends_only_the_stop_or_protection_shown(operator: NewSession, rig: Rig) -> None:
    ada, bob, admin = operator(), operator(), operator("admin")
    ada.send("stop", reason="odd deletes")
    shown = ada.field("start?instance=shop", "stop")
    rig.later(1)
    bob.send("stop", reason="data loss: do not start")
    assert "another one by now" in ada.answer("start", stop=shown)
    assert _stops(rig) == ["data loss: do not start"]
    assert "is started again" in ada.answer("start", stop=ada.field("start?instance=shop", "stop"))
    assert _stops(rig) == []

    release = {"job": "copy", "reason": "it hangs"}
    protect(rig, "copy", "data/a.dat")
    shown = admin.field("blockers?instance=shop", "registered")
    rig.protections.release("shop", "copy", "done")
    rig.later(1)
    protect(rig, "copy", "data/b.dat")
    assert "another protection by now" in admin.answer("protections/release", **release, registered=shown)
    assert [p.job for p in rig.protections.list_protections("shop")] == ["copy"]
    now = admin.field("blockers?instance=shop", "registered")
    assert "has ended" in admin.answer("protections/release", **release, registered=now)


def test_an_order_changes_only_what_was_shown(operator: NewSession, api: Api, rig: Rig) -> None:
    ada, bob, admin = operator(), operator(), operator("operate@*")
    quarantine(rig, "CHANGED", "q1")
    shown = ada.field("quarantine", "marks")
    quarantine(rig, "CHANGED", "q2")
    order = {"cause": "CHANGED", "deletes_current": "true"}
    assert "not as many as the page showed" in ada.answer("quarantine/retry", **order, marks=shown)
    assert reasons(rig) == {"q1": "CHANGED", "q2": "CHANGED"}
    assert "tries 2 marks again" in ada.answer("quarantine/retry", **order, marks="2")

    key = "recycle.max_delete_objects"
    page = f"settings?instance=shop&key={key}&value="
    agreed = ada.field(page + "2000000", "agreed")
    bob.send("settings/set", key=key, value="10", reason="incident", agreed=bob.field(page + "10", "agreed"))
    refused = ada.answer("settings/set", key=key, value="2000000", agreed=agreed)
    assert "look at what it changes again" in refused
    assert [row.value for row in api.app.state.service.live.rows()] == ["10"]

    bob.send("vaults/cap", vault="disk", rate="1", shown="")
    assert "another cap by now" in ada.answer("vaults/cap", vault="disk", rate="50000", shown="")
    assert "at 500 keys/s at most" in ada.answer("vaults/cap", vault="disk", rate="500", shown="1")

    rig.instance("bank")
    for name in ("bank", "shop"):
        admin.send("lists/add", which="whitelist", name=name)
    admin.send("lists/remove", which="whitelist", name="bank")
    assert "is the last entry by now" in admin.answer("lists/remove", which="whitelist", name="shop")
    assert "is empty now" in admin.answer("lists/remove", which="whitelist", name="shop", last="1")


def test_lists_say_what_they_permit_and_name_no_other_tenant(
    operator: NewSession, api: Api, rig: Rig, tmp_path: Path
) -> None:
    rig.instance("bank").local(tmp_path / "gold", "gold", "bank")
    ada, admin = operator(), operator("operate@*")
    for name, entry in ((ListName.WHITELIST, "bank"), (ListName.VAULTS, "bank/gold")):
        admin.send("lists/add", which=name, name=entry)
    token = {"Authorization": f"Bearer {api.token('read@shop')}"}
    texts = [ada.see(page) for page in ("", "blockers", "rounds")]
    texts += [ada.http.get(f"/v1/{path}?instance=shop", headers=token).text for path in ("status", "blockers")]

    assert any("is not on the whitelist" in text for text in texts)
    assert any("is not on the list vaults" in text for text in texts)
    assert [text for text in texts if "bank" in text or "gold" in text] == []
    for name, entry, frees in [
        (ListName.WHITELIST, "bank", "rounds may work on every instance"),
        (ListName.VAULTS, "bank/gold", "rounds may delete from every vault"),
    ]:
        assert f"it is the last, so {frees}" in admin.see("blockers?instance=shop")
        removed = admin.answer("lists/remove", which=name, name=entry, last="1")
        assert f"the list {name} is empty now: it blocks nothing" in removed


def test_what_is_anothers_is_refused_like_what_is_absent(api: Api, rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna").id
    map_regions(rig.db, "orders", ())
    rig.instance("bank")
    headers = {"Authorization": f"Bearer {api.token('operate@bank')}"}
    for path, body, names in [
        ("plans/{}/apply", None, (str(plan), "77")),
        ("plans/{}/reject", {"reason": "x"}, (str(plan), "77")),
        ("topics/{}/purge", None, ("orders", "unknown")),
    ]:
        answers = [httpx.post(f"{api.url}/v1/{path.format(name)}", json=body, headers=headers) for name in names]
        assert len({answer.text.replace(name, "N") for answer, name in zip(answers, names, strict=True)}) == 1


def test_a_part_that_cannot_be_read_hides_no_other(
    operator: NewSession, api: Api, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.instance("bank")
    status = api.app.state.service.status

    def broken(*_: object) -> None:
        raise RuntimeError("bank cannot be read")

    def read(instance: str) -> object:
        return broken() if instance == "bank" else status(instance)

    with monkeypatch.context() as m:
        m.setattr("sexton.interfaces.console.app.list_blockers", broken)
        page = operator().see()
    assert "What blocks deletions is not known yet" in page
    assert "bank" not in page
    assert "Due" in page

    monkeypatch.setattr(api.app.state.service, "status", read)
    page = operator("operate@*").see()
    assert "being counted" in page
    assert "Stop bank" in page
    assert "Last success" in page
    assert "bank cannot be read" not in page


def test_a_hold_is_placed_on_the_prefix_as_it_was_written(operator: NewSession, rig: Rig, root: Path) -> None:
    ada = operator()
    for number, folder in enumerate((" old/", "\u3000old/", "\u00a0old/")):
        put(root, f"{folder}a.dat")
        rig.mark("dropped", NewMark(id=f"blank-{number}", vault="disk", keys=(f"{folder}a.dat",)))
        rig.later(10_801)
        hold = {"scope": "prefix", "vault": "disk", "prefix": folder, "seconds": " 3d ", "reason": " keep "}
        assert ada.send("holds", **hold).status_code == 303
        rig.round()

        assert {(h.prefix, h.reason) for h in rig.holds.active("shop")} >= {(folder, "keep")}
        assert (root / f"{folder}a.dat").exists()


def test_a_button_approves_the_cut_of_its_own_binlog(operator: NewSession, api: Api, rig: Rig) -> None:
    ada, configs, t = operator(), api.app.state.service.stores.binlogs.configs, rig.db.t.binlog_log
    upto = {("sales", ""): 1_000, ("sales ", ""): 900, ("sales", " "): 800}
    for (db, table), seq in upto.items():
        configs.put("shop", db, table, LogRetention(ttl_seconds=60))
        with rig.db.write() as c:
            c.execute(t.update().where(t.c.db == db, t.c.tbl == table).values(awaiting_seq=seq))
    eventually("the worst of what she may read is named", lambda: "4 things need an operator" in ada.see())
    page = ada.see("binlogs")
    forms = re.findall(r'<form method="post" action="/console/binlogs/approve".*?</form>', page, re.DOTALL)
    fields = [dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)) for form in forms]
    for seq in ("900", "800"):
        [form] = [of for of in fields if of["upto"] == seq]
        ada.send("binlogs/approve", **{name: html.unescape(value) for name, value in form.items()}, typed=seq)
    with rig.db.read() as c:
        waiting = {(row.db, row.tbl): row.awaiting_seq for row in c.execute(t.select())}

    assert waiting == {("sales", ""): 1_000, ("sales ", ""): None, ("sales", " "): None}


def test_a_hold_says_what_it_covers(operator: NewSession, rig: Rig) -> None:
    ada = operator()
    rig.mark("dropped", NewMark(id="whole", vault="disk", prefix="t/"))
    rig.mark("dropped", NewMark(id="blank", vault="disk", keys=(" old/a.dat", "b.dat ")))
    for placed, (hold, sentence) in enumerate(
        [
            ({"scope": "prefix", "vault": " disk ", "prefix": "t/ordres/"}, "will be kept only if files are there"),
            ({"scope": "prefix", "vault": "disk", "prefix": "nowhere/"}, "check the spelling"),
            ({"scope": "prefix", "vault": "disk", "prefix": "\u8a9e" * 300}, "check the spelling"),
            ({"scope": "prefix", "vault": "disk", "prefix": "t/"}, "it covers 1 mark now"),
            ({"scope": "mark", "mark": "dropped/whole ", "vault": " ", "prefix": " "}, "check its spelling"),
            ({"scope": "mark", "mark": "dropped/whole"}, "it covers 1 mark now"),
            ({"scope": "instance", "vault": " "}, "it covers"),
        ],
        start=1,
    ):
        page = ada.answer("holds", seconds="3d", reason="keep", **hold)
        notice = re.search(r'<p class="notice.*?</p>', page, re.DOTALL)

        assert notice is not None
        assert sentence in notice[0]
        assert ("notice ask" in notice[0]) == ("it covers" not in sentence)
        assert len(rig.holds.active("shop")) == placed
    for key in (" old/a.dat", "b.dat "):  # why is asked about the key as it was written
        page = ada.http.get("/console/why", params={"key": key, "instance": "shop"}).text
        assert re.search("dropped[/ ]blank", page)


def test_a_refused_hold_can_be_corrected_after_going_back(new_page: NewPage, rig: Rig) -> None:
    typed = {"prefix": "legal/", "seconds": "30", "hold-reason": "a court"}
    page = new_page("operate@shop")
    page.goto("/console/blockers?instance=shop&hold=prefix")
    for field, text in typed.items():
        page.fill(f"#{field}", text)
    page.get_by_role("button", name="Place the hold").click()
    refused = page.inner_text("main")
    page.go_back()
    page.wait_for_load_state()

    assert "30 of what?" in refused
    assert {field: page.input_value(f"#{field}") for field in typed} == typed
    assert not rig.holds.active("shop")


def test_the_form_of_a_hold_has_the_fields_of_its_scope(operator: NewSession, rig: Rig) -> None:
    ada = operator()
    for scope, own in {"instance": [], "table": ["table"], "mark": ["mark"], "prefix": ["vault", "prefix"]}.items():
        page = ada.see(f"blockers?hold={scope}")
        fields = [name for name in ("table", "mark", "vault", "prefix") if f'id="{name}"' in page]

        assert (fields, "<option>disk</option>" in page) == (own, scope == "prefix")
    assert ada.send("holds", scope="table", table="12", seconds="3d", reason="keep").status_code == 303
    assert [(hold.mark_kind, hold.mark_id) for hold in rig.holds.active("shop")] == [("table", "12")]


ALL_PAGES = ("rounds", "plans", "quarantine", "checks", "vaults", "blockers", "topics", "operations")


def test_all_instances_stay_chosen(operator: NewSession, rig: Rig) -> None:
    quarantine(rig, "BAD_KEY", "q1")
    rig.insert("check_run", instance="shop", run="check", state="RUNNING", cutoff=1)
    rig.instance("bank")
    of_shop, _ = rig.round(), rig.round("bank")
    admin = operator("admin")
    pages = {path: admin.see(path) for path in (*ALL_PAGES, f"rounds/{of_shop.round}", f"plans/{of_shop.plan}")}
    pages |= {path: admin.see(path) for path in ("binlogs", "binlogs?instance=bank&all=1", "start?instance=bank&all=1")}
    pages["the answer of a form"] = admin.answer("stop", reason="odd deletes", all="1")
    map_regions(rig.db, "orders", ())
    pages["a question"] = admin.answer("do/wal reset", topic="orders", reason="recreated", instance="", all="1")

    for page, text in pages.items():
        assert [name for name in ("rounds", "plans") if f'href="/console/{name}"' not in text] == [], page
    for page in ("rounds", "plans", "checks", "vaults", "quarantine"):
        assert f'href="/console/{page}?instance=shop"' in pages[page]
    assert 'href="/console/rounds?instance=bank"' in pages["rounds"]
    assert "The last 2 rounds of all instances" in pages["rounds"]
    assert '<select id="check-rebase-instance" name="instance" required>' in pages["operations"]
    assert "Binlogs of which instance?" in pages["binlogs"]
    assert "Yes: wal reset" in pages["a question"]
    assert "Binlogs of bank" in pages["binlogs?instance=bank&all=1"]


def test_a_page_of_a_number_finds_its_instance(operator: NewSession, rig: Rig) -> None:
    report = rig.round()
    rig.instance("bank")
    admin, of_bank = operator("admin"), operator("operate@bank")
    for path in (f"rounds/{report.round}", f"plans/{report.plan}"):
        for address in (path, f"{path}?instance=bank", f"{path}?instance=shop"):
            assert re.search(r"<h1>(Round|Plan) \d+ of shop", admin.see(address))
        assert of_bank.http.get(f"/console/{path}").status_code == 403


def test_the_last_rounds_are_drawn(operator: NewSession, rig: Rig) -> None:
    before = operator("read@shop").see("rounds")
    number = rig.round().round
    pages = [operator("read@shop").see(page) for page in ("rounds", "")]

    assert "The last" not in before
    for page in pages:
        assert "The last 1 round of shop" in page
        assert f"<title>Round {number}: 5</title>" in page  # objects deleted
        assert "would cost less than 0.01 USD a month" in page


def test_the_overview_after_a_stop_and_a_start_is_true(operator: NewSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.interfaces.console.latest.WAIT_SECONDS", 0.0)  # older answers whenever they are known
    monkeypatch.setattr("sexton.interfaces.console.latest.FIRST_SECONDS", 30.0)
    ada = operator()
    before = _text(ada.see())
    stopped = _text(ada.answer("stop", reason="zebra"))
    started = _text(ada.answer("start", stop=ada.field("start?instance=shop", "stop")))

    assert ["stop the whole instance" in text for text in (before, stopped, started)] == [False, True, False]
    assert ["zebra" in text for text in (stopped, started)] == [True, False]


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.unescape(page))).replace(" :", ":")
