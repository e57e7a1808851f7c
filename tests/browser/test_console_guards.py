"""Nobody but a page of the session changes something, wrong forms change nothing, and pages are light."""

import httpx
import pytest

from sexton.interfaces.console.session import PATH
from tests.browser.conftest import NewSession, Operator
from tests.browser.test_console import PAGES
from tests.servers.api import Api
from tests.servers.issuer import Issuer
from tests.support.eventually import eventually
from tests.support.rig import Rig

pytestmark = pytest.mark.slow
MAX_BYTES = 150 << 10
HOLD = {"seconds": "3d", "reason": "keep"}


def test_a_form_without_its_token_changes_nothing(operator: NewSession, rig: Rig) -> None:
    ada = operator()
    good, foreign = ada.form_token(), operator("").form_token("login")
    for token in ("", "x", foreign, good[:-1] + ("0" if good[-1] != "0" else "1")):
        assert ada.send("stop", form_token=token).status_code == 403
    ada.http.headers["Sec-Fetch-Site"] = "cross-site"
    assert ada.send("stop").status_code == 403
    assert not rig.controls.all()
    del ada.http.headers["Sec-Fetch-Site"]
    assert ada.send("stop").status_code == 303
    assert rig.controls.all()


def test_a_login_gives_new_secrets_and_a_logout_ends_them(operator: NewSession, api: Api) -> None:
    ada = operator("")
    before, fixed = ada.form_token("login"), ada.http.cookies.get("sexton-forms")
    answer = ada.log_in(api.token("operate@shop"))
    assert ada.http.cookies.get("sexton-forms") != fixed
    for cookie in answer.headers.get_list("set-cookie"):
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert f"Path={PATH}" in cookie
    assert ada.send("stop", form_token=before).status_code == 403
    ada.send("logout")
    assert ada.http.get(PATH).status_code == 303


def test_a_session_that_has_ended_only_leaves_a_trace(operator: NewSession, api: Api, rig: Rig) -> None:
    ada, eve = operator(), operator()
    sent = {"form_token": ada.form_token(), "instance": "shop"}
    ada.http.cookies.clear()
    ended = ada.http.post(f"{PATH}/stop", data=sent, follow_redirects=True)
    assert "Nothing was done: your session had ended" in ended.text
    assert not rig.controls.all()

    tokens = api.tokens.all()
    for token in tokens:
        api.tokens.revoke(token.id, "bob")
    assert eve.http.get(f"{PATH}/rounds").status_code == 303
    rows = [row for row in rig.calls.rows(0, 100) if row.action == f"GET {PATH}/rounds"]
    assert [token.id for token in tokens for row in rows if token.id in row.who]


def test_only_a_token_of_a_person_logs_in(operator: NewSession, api: Api, rig: Rig) -> None:
    for token, sentence in [
        ("sxt_000000000000_" + "a" * 43, "not known"),
        (api.token("sync:copy@shop"), "sees no page"),
        (api.token("node:n1@shop"), "sees no page"),
    ]:
        nobody = operator("")
        answer = nobody.log_in(token)
        assert (answer.status_code, sentence in answer.text) == (401, True)
        assert nobody.http.get(PATH).status_code == 303

    with Issuer() as issuer:
        issuer.add_key("k1")
        with Api(rig, console=True, oidc=issuer.settings(ops=["operate@shop"])) as with_issuer:
            ada = Operator(with_issuer, "")
            assert issuer.url in ada.see("login")
            for token, status in ((issuer.token(groups=["nobody"]), 401), ("x" * 4_001, 401), (issuer.token(), 303)):
                assert ada.log_in(token).status_code == status
            assert f"of {issuer.url}" in ada.see()
            ada.http.close()


def test_pages_are_light_and_show_no_foreign_message(operator: NewSession) -> None:
    http = operator().http
    for path in PAGES:
        answer = http.get(f"{PATH}/{path}" if path else PATH)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assets = {part.partition("#")[0] for part in answer.text.split('"') if part.startswith(f"{PATH}/static/")}
        assert len(answer.content) + sum(len(http.get(asset).content) for asset in assets) <= MAX_BYTES
    for path in ("/console/nothing", "/console/plans/77", "/console/plans/0", "/console/rounds/99"):
        answer = http.get(path)
        assert answer.status_code in (404, 403, 422)
        assert "Nothing was changed" in answer.text
    for notice in ("x", "{", "[" * 1_500, "%FF", "Deletion is stopped.0"):
        http.cookies.set("sexton-notice", notice, path=PATH)
        answer = http.get(PATH)
        assert answer.status_code == 200
        assert 'class="notice"' not in answer.text
        assert any("sexton-notice" in cookie for cookie in answer.headers.get_list("set-cookie"))


def test_an_equal_live_part_is_not_sent_again(operator: NewSession) -> None:
    http, live = operator().http, {"HX-Request": "true", "HX-Target": "live"}

    def status_of_the_second() -> int:
        first = http.get(PATH, headers=live)
        assert "<html" not in first.text
        return http.get(PATH, headers=live | {"If-None-Match": first.headers["etag"]}).status_code

    eventually("two answers name the same ages", status_of_the_second, lambda status: status == 304)


def test_a_wrong_form_changes_nothing(operator: NewSession, rig: Rig) -> None:
    ada = operator()
    rig.all_stores.paces.put_cap("shop/disk", 500)
    digits = "9" * 5_000
    lengths = ("9" * 5_000, "\u0663d", "0d", "-1d", "1e2", "99999d", "7")
    for action, fields, sentence in [
        *(("holds", HOLD | {"scope": "instance", "seconds": seconds}, "Nothing was changed") for seconds in lengths),
        ("holds", HOLD | {"scope": "mark", "mark": "dropped/whole", "prefix": "legal/"}, "nothing is held yet"),
        ("holds", HOLD | {"scope": "prefix", "vault": "disk", "prefix": "t/", "mark": "m"}, "nothing is held yet"),
        ("holds", HOLD | {"scope": "instance", "vault": "disk", "prefix": "t/"}, "nothing is held yet"),
        *(("holds", HOLD | {"scope": scope}, f"nothing is held yet: write the {scope}") for scope in ("table", "mark")),
        ("holds", HOLD | {"scope": ""}, "nothing is held yet"),
        ("vaults/cap", {"vault": "disk", "shown": "500", "keys_per_second": "50"}, "Nothing was changed"),  # no rate
        ("binlogs/approve", {"db": "sales", "upto": digits, "typed": digits}, ""),
    ]:
        answer = ada.send(action, **fields)

        assert (answer.status_code, sentence in answer.text) == (422, True), (action, fields)
        assert not rig.holds.active("shop")
        assert [cap.keys_per_second for cap in rig.all_stores.paces.caps()] == [500]
        assert rig.controls.all() == ()


def test_an_action_is_of_the_instance_that_its_form_names(operator: NewSession, rig: Rig) -> None:
    Rig(rig.url).instance("depot")
    admin = operator("admin")
    assert admin.http.post(f"{PATH}/stop", data={"form_token": admin.form_token()}).status_code == 422
    assert rig.controls.all() == ()
    assert admin.send("stop?instance=depot").status_code == 303
    assert [control.name for control in rig.controls.all()] == ["shop"]


def test_the_console_trusts_the_proxies_of_the_api(rig: Rig, root: object) -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    with (
        Api(rig, console=True, api={"trusted_proxies": ["127.0.0.1"]}) as api,
        httpx.Client(base_url=api.url, headers=forwarded) as client,
    ):
        before = client.get(f"{PATH}/login")
        token = before.text.partition('name="form_token" value="')[2].partition('"')[0]
        cookie = before.headers["set-cookie"].partition(";")[0]
        form = {"token": api.token("operate@shop"), "form_token": token}
        answer = client.post(f"{PATH}/login", data=form, headers={"Cookie": cookie})
    assert answer.status_code == 303, answer.text
    [session_cookie] = [c for c in answer.headers.get_list("set-cookie") if "sxt_" in c]
    assert "Secure" in session_cookie
