"""Every page with much on it, as an administrator sees it: no serious barrier, and no wider than the window."""

from pathlib import Path

import pytest

from tests.browser.conftest import NewPage
from tests.browser.pictures import PAGES, WIDTHS, furnish
from tests.browser.test_console_checks import rig, root
from tests.integration.check.conftest import Owned, owned
from tests.servers.api import Api

__all__ = ["owned", "rig", "root"]
NARROW = 768
"""In px: in a narrower window a table may not scroll, either."""
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_full_pages_are_accessible_and_fit(new_page: NewPage, api: Api, owned: Owned, scheme: str) -> None:
    numbers = furnish(owned, api, owned.root)
    page = new_page("admin", color_scheme=scheme, bypass_csp=True)
    barriers, widths = [], {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for name, path in PAGES.items():
            page.goto(f"/console/{path.format(**numbers)}".rstrip("/"))
            widths[name, width] = page.evaluate("document.documentElement.scrollWidth") - width
            if width < NARROW:
                over = page.eval_on_selector_all(".scroll", "all => all.map(e => e.scrollWidth - e.clientWidth)")
                widths[name, width] = max(widths[name, width], *over, 0)
            page.evaluate(AXE)
            found = page.evaluate("axe.run().then(r => r.violations)")
            serious = [v for v in found if v["impact"] in ("serious", "critical")]
            barriers += [(name, width, v["id"], v["nodes"][0]["html"][:200]) for v in serious]
    assert barriers == []
    assert {key: over for key, over in widths.items() if over > 0} == {}
