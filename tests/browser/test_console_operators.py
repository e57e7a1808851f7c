"""Two operators, old pages and other tenants: a form does what its page showed, or says why not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sexton.operators.call_log.store import CallStore
from sexton.operators.controls.model import ControlKind, ListName
from sexton.operators.controls.store import ControlStore
from sexton.wal.orders import MapOrder
from tests.browser.test_console_guards import PATH, _token
from tests.integration.interfaces.api.test_operating import quarantine, reasons
from tests.integration.protection.registrations import protect
from tests.servers.api import Api
from tests.support.rig import Rig

pytestmark = pytest.mark.slow


class Operator:
    """A session of a browser that sends forms."""

    def __init__(self, api: Api, scope: str = "operate@shop", **headers: str) -> None:
        self.http = httpx.Client(base_url=api.url, timeout=60, headers=headers)
        self.http.get(f"{PATH}/login")
        fields = {"token": api.token(scope), "form_token": _token(self.http)}
        assert self.http.post(f"{PATH}/login", data=fields).status_code == 303

    def see(self, page: str) -> str:
        return self.http.get(f"{PATH}/{page}" if page else PATH).text

    def field(self, page: str, name: str) -> str:
        """Return a hidden value of a page."""
        [value, *_] = re.findall(rf'name="{name}" value="([^"]*)"', self.see(page))
        return str(value)

    def send(self, action: str, instance: str = "shop", **fields: Any) -> httpx.Response:
        form = {"form_token": self.field("rounds", "form_token"), "instance": instance}
        return self.http.post(f"{PATH}/{action}", data=form | fields)

    def said(self, action: str, **fields: Any) -> str:
        """Send a form; return the text of the page that follows it."""
        sent = self.send(action, **fields)
        return self.http.get(sent.headers["location"]).text if sent.status_code == 303 else sent.text


@pytest.fixture
def ada(api: Api) -> Iterator[Operator]:
    operator = Operator(api)
    yield operator
    operator.http.close()


def _stops(rig: Rig) -> list[str]:
    return [c.reason for c in ControlStore(rig.db).all() if c.kind is ControlKind.STOP]


def test_start_ends_only_the_stop_that_was_shown(ada: Operator, api: Api, rig: Rig) -> None:
    ada.send("stop", reason="odd deletes")
    shown = ada.field("start?instance=shop", "stop")
    rig.later(1)
    Operator(api).send("stop", reason="data loss: do not start")

    assert "another one by now" in ada.said("start", stop=shown)
    assert _stops(rig) == ["data loss: do not start"]
    assert "is started again" in ada.said("start", stop=ada.field("start?instance=shop", "stop"))
    assert _stops(rig) == []


def test_retry_takes_only_as_many_as_were_shown(ada: Operator, rig: Rig) -> None:
    quarantine(rig, "CHANGED", "q1")
    shown = ada.field("quarantine", "marks")
    quarantine(rig, "CHANGED", "q2")
    order = {"cause": "CHANGED", "deletes_current": "true"}

    assert "not as many as the page showed" in ada.said("quarantine/retry", **order, marks=shown)
    assert reasons(rig) == {"q1": "CHANGED", "q2": "CHANGED"}
    assert "tries 2 marks again" in ada.said("quarantine/retry", **order, marks="2")


def test_a_setting_does_not_replace_a_value_that_was_not_shown(ada: Operator, api: Api, rig: Rig) -> None:
    key = "recycle.max_delete_objects"
    page = f"settings?instance=shop&key={key}&value="
    agreed = ada.field(page + "2000000", "agreed")
    bob = Operator(api)
    bob.send("settings/set", key=key, value="10", reason="incident", agreed=bob.field(page + "10", "agreed"))

    assert "look at what it changes again" in ada.said("settings/set", key=key, value="2000000", agreed=agreed)
    assert [row.value for row in api.app.state.service.live.rows()] == ["10"]


def test_a_form_of_an_ended_session_says_that_nothing_was_done(api: Api, rig: Rig) -> None:
    ada = Operator(api)
    form_token = ada.field("rounds", "form_token")
    ada.http.cookies.clear()
    sent = ada.http.post(f"{PATH}/stop", data={"form_token": form_token, "instance": "shop"}, follow_redirects=True)
    assert "Nothing was done: your session had ended" in sent.text
    assert _stops(rig) == []


@pytest.mark.parametrize(
    ("name", "entry", "frees"),
    [
        (ListName.WHITELIST, "bank", "rounds may work on every instance"),
        (ListName.VAULTS, "shop/disk", "rounds may delete from every vault"),
    ],
)
def test_the_last_entry_of_a_list_says_what_its_removal_permits(
    api: Api, rig: Rig, name: ListName, entry: str, frees: str
) -> None:
    rig.instance("bank")
    admin = Operator(api, "operate@*")
    admin.send("lists/add", which=name, name=entry)
    assert f"it is the last, so {frees}" in admin.see("blockers?instance=shop")
    assert f"the list {name} is empty now: it blocks nothing" in admin.said(
        "lists/remove", which=name, name=entry, last="1"
    )


def test_lists_do_not_name_other_tenants(ada: Operator, api: Api, rig: Rig, tmp_path: Path) -> None:
    rig.instance("bank").local(tmp_path / "gold", "gold", "bank")
    for name, entry in ((ListName.WHITELIST, "bank"), (ListName.VAULTS, "bank/gold")):
        Operator(api, "operate@*").send("lists/add", which=name, name=entry)
    token = {"Authorization": f"Bearer {api.token('read@shop')}"}
    texts = [ada.see(page) for page in ("", "blockers", "rounds")]
    texts += [ada.http.get(f"/v1/{path}?instance=shop", headers=token).text for path in ("status", "blockers")]

    assert any("is not on the whitelist" in text for text in texts)
    assert any("is not on the list vaults" in text for text in texts)
    assert [text for text in texts if "bank" in text or "gold" in text] == []


def test_blockers_that_cannot_be_read_hide_no_status(api: Api, ada: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("bank cannot be read")

    monkeypatch.setattr("sexton.interfaces.console.app.list_blockers", broken)
    page = ada.http.get(PATH)
    assert page.status_code == 200
    assert "What blocks deletions is not known yet" in page.text
    assert "bank" not in page.text
    assert "Due" in page.text


def test_a_foreign_plan_is_refused_like_one_that_is_absent(api: Api, rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna").id
    rig.instance("bank")
    headers = {"Authorization": f"Bearer {api.token('operate@bank')}"}
    for action, body in (("apply", None), ("reject", {"reason": "x"})):
        texts = {
            httpx.post(f"{api.url}/v1/plans/{number}/{action}", json=body, headers=headers).text.replace(
                str(number), "N"
            )
            for number in (plan, 77)
        }
        assert len(texts) == 1


def test_the_console_trusts_the_proxies_of_the_api(rig: Rig, root: object) -> None:
    with Api(rig, console=True, api={"trusted_proxies": ["127.0.0.1"]}) as api:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
        with httpx.Client(base_url=api.url, headers=forwarded) as client:
            before = client.get(f"{PATH}/login")
            token = before.text.partition('name="form_token" value="')[2].partition('"')[0]
            cookie = before.headers["set-cookie"].partition(";")[0]
            form = {"token": api.token("operate@shop"), "form_token": token}
            answer = client.post(f"{PATH}/login", data=form, headers={"Cookie": cookie})
        assert answer.status_code == 303, answer.text
        [session_cookie] = [c for c in answer.headers.get_list("set-cookie") if "sxt_" in c]
        assert "Secure" in session_cookie


def test_a_revoked_token_leaves_a_trace(api: Api, rig: Rig) -> None:
    ada = Operator(api)
    [token] = api.tokens.all()
    api.tokens.revoke(token.id, "bob")
    assert ada.http.get(f"{PATH}/rounds").status_code == 303
    rows = CallStore(rig.db).rows(0, 100)
    assert any(token.id in row.who and row.action == f"GET {PATH}/rounds" for row in rows)


def test_a_release_ends_only_the_protection_that_was_shown(api: Api, rig: Rig) -> None:
    admin = Operator(api, "admin")
    protect(rig, "copy", "data/a.dat")
    shown = admin.field("blockers?instance=shop", "registered")
    rig.protections.release("shop", "copy", "done")
    rig.later(1)
    protect(rig, "copy", "data/b.dat")

    said = admin.said("protections/release", job="copy", reason="it hangs", registered=shown)
    assert "another protection by now" in said
    assert [p.job for p in rig.protections.list_protections("shop")] == ["copy"]
    now = admin.field("blockers?instance=shop", "registered")
    assert "has ended" in admin.said("protections/release", job="copy", reason="it hangs", registered=now)


def test_an_old_page_does_not_empty_a_list(api: Api, rig: Rig) -> None:
    rig.instance("bank")
    admin = Operator(api, "operate@*")
    for name in ("bank", "shop"):
        admin.send("lists/add", which="whitelist", name=name)
    admin.send("lists/remove", which="whitelist", name="bank")
    assert "is the last entry by now" in admin.said("lists/remove", which="whitelist", name="shop")
    assert "is empty now" in admin.said("lists/remove", which="whitelist", name="shop", last="1")


def test_a_cap_replaces_only_the_cap_that_was_shown(ada: Operator, api: Api, rig: Rig) -> None:
    Operator(api).send("vaults/cap", vault="disk", rate="1", shown="")
    assert "another cap by now" in ada.said("vaults/cap", vault="disk", rate="50000", shown="")
    assert "at 500 keys/s at most" in ada.said("vaults/cap", vault="disk", rate="500", shown="1")


def test_an_instance_that_cannot_be_counted_hides_no_other(api: Api, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.instance("bank")
    status = api.app.state.service.status

    def read(instance: str) -> object:
        if instance == "bank":
            raise RuntimeError("gold is at fault")
        return status(instance)

    monkeypatch.setattr(api.app.state.service, "status", read)
    page = Operator(api, "operate@*").see("")
    assert "being counted" in page
    assert "Stop bank" in page
    assert "Last success" in page
    assert "gold" not in page


def test_a_very_long_number_is_a_wrong_number(ada: Operator) -> None:
    digits = "9" * 5_000
    sent = ada.send("binlogs/approve", db="sales", upto=digits, typed=digits)
    assert sent.status_code == 422


def test_a_foreign_topic_is_refused_like_one_that_is_absent(api: Api, rig: Rig) -> None:
    rig.instance("bank")
    wal = api.app.state.service.stores.wal
    wal.maps.put(MapOrder(instance="shop", topic="orders", generation=1, regions=()))
    headers = {"Authorization": f"Bearer {api.token('operate@bank')}"}
    texts = {
        httpx.post(f"{api.url}/v1/topics/{name}/purge", headers=headers).text.replace(name, "T")
        for name in ("orders", "unknown")
    }
    assert len(texts) == 1
