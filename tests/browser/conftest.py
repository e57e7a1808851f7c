"""A served console of one instance, and pages of a real browser that may reach nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from tests.integration.protection.registrations import garbage
from tests.machine import need
from tests.servers.api import Api
from tests.support.rig import Rig

NewPage = Callable[..., Page]
PATIENCE_MS = 60_000
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


def _only_from(url: str, route: Route) -> None:
    if route.request.url.startswith(url):
        route.continue_()
    else:
        route.abort()
