"""Reach a control with the Tab key, as who has no mouse."""

from playwright.sync_api import Page

MOST_TABS = 120


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control with this id, or with this text, has the focus."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused = "[document.activeElement.id, document.activeElement.textContent.trim()]"
        id_, text = page.evaluate(focused)
        if name == id_ or text.startswith(name):
            return
    raise AssertionError(f"{name} cannot be reached with the keyboard")
