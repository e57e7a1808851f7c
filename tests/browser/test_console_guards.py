"""Nobody but a page of the session changes something; the pages are light, accessible and need no other host."""

import http.cookiejar
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.interfaces.console.session import PATH
from sexton.operators.controls.store import ControlStore
from sexton.recycle.pacing.store import PaceStore
from tests.browser.conftest import NewPage
from tests.browser.test_console import PAGES
from tests.servers.api import Api
from tests.servers.issuer import Issuer
from tests.support.eventually import eventually
from tests.support.rig import Rig

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
MAX_BYTES = 150 << 10


@pytest.fixture
def http_(api: Api) -> Iterator[httpx.Client]:
    """A client that has logged in, without a browser's protections."""
    with httpx.Client(base_url=api.url, cookies=http.cookiejar.CookieJar(), timeout=60) as client:
        client.get(f"{PATH}/login")
        answer = client.post(f"{PATH}/login", data={"token": api.token("operate@shop"), "form_token": _token(client)})
        assert answer.status_code == 303
        yield client


def _token(client: httpx.Client, path: str = f"{PATH}/login") -> str:
    text = client.get(path).text
    return text.partition('name="form_token" value="')[2].partition('"')[0]


@pytest.mark.slow
def test_a_form_without_its_token_changes_nothing(http_: httpx.Client, api: Api, rig: Rig) -> None:
    good = _token(http_, PATH)
    foreign = httpx.Client(base_url=api.url, timeout=60)
    for token in ("", "x", _token(foreign), good[:-1] + ("0" if good[-1] != "0" else "1")):
        assert http_.post(f"{PATH}/stop", data={"instance": "shop", "form_token": token}).status_code == 403
    cross = {"Sec-Fetch-Site": "cross-site"}
    sent = {"instance": "shop", "form_token": good}
    assert http_.post(f"{PATH}/stop", data=sent, headers=cross).status_code == 403
    assert not ControlStore(rig.db).all()
    assert http_.post(f"{PATH}/stop", data=sent).status_code == 303
    assert ControlStore(rig.db).all()


def test_a_login_gives_new_secrets_and_a_logout_ends_them(api: Api) -> None:
    with httpx.Client(base_url=api.url, timeout=60) as client:
        before = _token(client)
        fixed = client.cookies.get("sexton-forms")
        answer = client.post(f"{PATH}/login", data={"token": api.token("operate@shop"), "form_token": before})
        assert client.cookies.get("sexton-forms") != fixed
        for cookie in answer.headers.get_list("set-cookie"):
            assert "HttpOnly" in cookie
            assert "samesite=strict" in cookie.lower()
            assert f"Path={PATH}" in cookie
        assert client.post(f"{PATH}/stop", data={"instance": "shop", "form_token": before}).status_code == 403
        client.post(f"{PATH}/logout", data={"form_token": _token(client, PATH)})
        assert client.get(PATH).status_code == 303


def test_a_wrong_token_does_not_log_in(api: Api) -> None:
    with httpx.Client(base_url=api.url, timeout=60) as client:
        sent = {"token": "sxt_000000000000_" + "a" * 43, "form_token": _token(client)}
        answer = client.post(f"{PATH}/login", data=sent)
        assert answer.status_code == 401
        assert "not known" in answer.text
        assert client.get(PATH).status_code == 303


def test_a_jwt_of_the_issuer_logs_in_as_a_token_does(rig: Rig) -> None:
    with Issuer() as issuer:
        issuer.add_key("k1")
        with (
            Api(rig, console=True, oidc=issuer.settings(ops=["operate@shop"])) as api,
            httpx.Client(base_url=api.url, timeout=60) as client,
        ):
            assert issuer.url in client.get(f"{PATH}/login").text
            for token, status in ((issuer.token(groups=["nobody"]), 401), ("x" * 4_001, 401), (issuer.token(), 303)):
                sent = {"token": token, "form_token": _token(client)}
                assert client.post(f"{PATH}/login", data=sent).status_code == status
            assert f"of {issuer.url}" in client.get(PATH).text


def test_pages_are_light_and_name_their_sources(http_: httpx.Client) -> None:
    for path in PAGES:
        answer = http_.get(f"{PATH}/{path}" if path else PATH)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assets = {part.partition("#")[0] for part in answer.text.split('"') if part.startswith(f"{PATH}/static/")}
        total = len(answer.content) + sum(len(http_.get(asset).content) for asset in assets)
        assert total <= MAX_BYTES


def test_an_equal_live_part_is_not_sent_again(http_: httpx.Client) -> None:
    live = {"HX-Request": "true", "HX-Target": "live"}

    def status_of_the_second() -> int:
        first = http_.get(PATH, headers=live)
        assert "<html" not in first.text
        return http_.get(PATH, headers=live | {"If-None-Match": first.headers["etag"]}).status_code

    eventually("two answers name the same ages", status_of_the_second, lambda status: status == 304)


def test_what_is_absent_is_said(http_: httpx.Client) -> None:
    for path in ["/console/nothing", "/console/plans/77", "/console/plans/0", "/console/rounds/99"]:
        answer = http_.get(path)
        assert answer.status_code in (404, 403, 422)
        assert "Nothing was changed" in answer.text


def test_a_foreign_message_is_not_shown(http_: httpx.Client) -> None:
    for notice in ["x", "{", "[" * 1_500, "%FF", "Deletion is stopped.0"]:
        http_.cookies.set("sexton-notice", notice, path=PATH)
        answer = http_.get(PATH)
        assert answer.status_code == 200
        assert 'class="notice"' not in answer.text
        assert any("sexton-notice" in cookie for cookie in answer.headers.get_list("set-cookie"))


def test_a_long_name_does_not_lose_the_message(http_: httpx.Client, rig: Rig) -> None:
    sent = {
        "instance": "shop",
        "scope": "prefix",
        "vault": "disk",
        "prefix": "\u8a9e" * 300,
        "seconds": "1d",
        "reason": "x",
    }
    http_.post(f"{PATH}/holds", data=sent | {"form_token": _token(http_, PATH)})
    assert rig.count("hold") == 1
    assert "hold 1 blocks" in http_.get(f"{PATH}/blockers").text


def test_a_hold_needs_a_valid_length(http_: httpx.Client, rig: Rig) -> None:
    for seconds in ["9" * 5_000, "\u0663d", "0d", "-1d", "1e2", "99999d", "7"]:
        sent = {"instance": "shop", "scope": "instance", "reason": "x", "seconds": seconds}
        answer = http_.post(f"{PATH}/holds", data=sent | {"form_token": _token(http_, PATH)})
        assert answer.status_code == 422
        assert "Nothing was changed" in answer.text
        assert not rig.count("hold")


def test_an_action_names_its_instance(api: Api, rig: Rig) -> None:
    Rig(rig.url).instance("depot")
    with httpx.Client(base_url=api.url, timeout=60) as client:
        sent = {"token": api.token("admin"), "form_token": _token(client)}
        client.post(f"{PATH}/login", data=sent)
        token = _token(client, PATH)
        assert client.post(f"{PATH}/stop", data={"form_token": token}).status_code == 422
        sent = {"instance": "shop", "form_token": token}
        assert client.post(f"{PATH}/stop?instance=depot", data=sent).status_code == 303
    assert [control.name for control in ControlStore(rig.db).all()] == ["shop"]


@pytest.mark.parametrize("scope", ["sync:copy@shop", "node:n1@shop"])
def test_programs_do_not_log_in(api: Api, scope: str) -> None:
    with httpx.Client(base_url=api.url, timeout=60) as client:
        answer = client.post(f"{PATH}/login", data={"token": api.token(scope), "form_token": _token(client)})
        assert answer.status_code == 401
        assert "sees no page" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier(new_page: NewPage, rig: Rig, scheme: str) -> None:
    page = new_page("operate@shop", color_scheme=scheme, bypass_csp=True)
    page.goto("/console/plans")
    page.click("text=Plan what is due now")
    rig.round()
    barriers = []
    for path in (*PAGES, "plans/1", "rounds/1", "start"):
        page.goto(f"/console/{path}" if path else "/console")
        page.evaluate(AXE)
        found = page.evaluate("axe.run().then(r => r.violations)")
        serious = [v for v in found if v["impact"] in ("serious", "critical")]
        barriers += [(path, v["id"], v["nodes"][0]["html"][:200]) for v in serious]
    assert not barriers


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1600])
def test_no_page_is_wider_than_the_window(new_page: NewPage, width: int) -> None:
    page = new_page("operate@shop", viewport={"width": width, "height": 800})
    widths = {}
    for path in PAGES:
        page.goto(f"/console/{path}" if path else "/console")
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    assert max(widths.values()) <= width


def test_a_form_without_a_rate_removes_no_cap(http_: httpx.Client, rig: Rig) -> None:
    PaceStore(rig.db).put_cap("shop/disk", 500)
    sent = {"instance": "shop", "vault": "disk", "shown": "500", "keys_per_second": "50"}

    answer = http_.post(f"{PATH}/vaults/cap", data=sent | {"form_token": _token(http_, PATH)})

    assert (answer.status_code, "Nothing was changed" in answer.text) == (422, True)
    assert [cap.keys_per_second for cap in PaceStore(rig.db).caps()] == [500]
