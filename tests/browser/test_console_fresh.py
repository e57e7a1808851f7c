"""The page to which an action leads shows nothing from before it."""

import html
import re

import httpx
import pytest

from tests.browser.test_console_guards import PATH, _token
from tests.servers.api import Api


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
