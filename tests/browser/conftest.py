"""A served console of one instance, and pages of a real browser that may reach nothing else."""

import html
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from sexton.interfaces.console.session import PATH
from tests.integration.protection.registrations import garbage
from tests.machine import need
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

NewPage = Callable[..., Page]
NewSession = Callable[..., "Operator"]
PATIENCE_MS = 1000 * PATIENCE_SECONDS
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = need("chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)


@pytest.fixture
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig, console=True) as served:
        yield served


@pytest.fixture
def new_page(browser: Browser, api: Api) -> Iterator[NewPage]:
    """Return a page of a new session that has logged in with a token of a scope."""
    contexts = []

    def opened(scope: str = "operate@shop", **options: object) -> Page:
        context = browser.new_context(base_url=api.url, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.route("**/*", lambda route: _only_from(api.url, route))
        page = context.new_page()
        if scope:
            page.goto("/console")
            page.fill("#token", api.token(scope))
            page.click("text=Log in")
            page.wait_for_selector("nav.menu")
        return page

    yield opened
    for context in contexts:
        context.close()


class Operator:
    """A session of a browser that sends forms, without a browser's protections."""

    def __init__(self, api: Api, scope: str = "operate@shop", **headers: str) -> None:
        self.http = httpx.Client(base_url=api.url, headers=headers)
        if scope:
            assert self.log_in(api.token(scope)).status_code == 303

    def log_in(self, token: str) -> httpx.Response:
        return self.http.post(f"{PATH}/login", data={"token": token, "form_token": self.form_token("login")})

    def see(self, page: str = "") -> str:
        return self.http.get(f"{PATH}/{page}" if page else PATH).text

    def field(self, page: str, name: str) -> str:
        """Return a hidden value of a page."""
        [value, *_] = re.findall(rf'name="{name}" value="([^"]*)"', self.see(page))
        return html.unescape(str(value))

    def form_token(self, page: str = "rounds") -> str:
        return self.field(page, "form_token")

    def send(self, action: str, *, follow: bool = False, **fields: Any) -> httpx.Response:
        """Send a form of instance ``shop``."""
        form = {"form_token": self.form_token(), "instance": "shop"} | fields
        return self.http.post(f"{PATH}/{action}", data=form, follow_redirects=follow)

    def answer(self, action: str, **fields: Any) -> str:
        """Send a form; return the text of the page that follows it."""
        return self.send(action, follow=True, **fields).text


@pytest.fixture
def operator(api: Api) -> Iterator[NewSession]:
    """Return a new session of a scope."""
    with ExitStack() as sessions:

        def opened(scope: str = "operate@shop") -> Operator:
            session = Operator(api, scope)
            sessions.callback(session.http.close)
            return session

        yield opened


def _only_from(url: str, route: Route) -> None:
    if route.request.url.startswith(url):
        route.continue_()
    else:
        route.abort()
