"""The scripts of others are those of their releases on npm, and no page needs another host."""

import hashlib
import re
from pathlib import Path

from sexton.interfaces.console.rendering import HERE, STATIC

AXE = Path(__file__).parents[3] / "browser" / "vendor" / "axe.min.js"
VENDORED = {
    STATIC / "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",  # htmx.org 2.0.11
    STATIC / "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",  # uplot 1.6.32
    STATIC / "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",  # the same
    AXE: "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",  # axe-core 4.14.1
}
OWN = {"console.css", "console.js", "icons.svg", "sexton.svg", "LICENSES.txt"}


def test_vendored_files_are_as_they_were_released() -> None:
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDORED} == VENDORED
    assert {path.name for path in STATIC.iterdir()} - {path.name for path in VENDORED} == OWN


def test_templates_have_tokens_and_no_inline_script() -> None:
    for path in sorted((HERE / "templates").iterdir()):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path
        assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:", text), path
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text), path
        assert "|safe" not in text.replace(" ", ""), path
        forms = re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL)
        assert all("form_token" in form for form in forms), path
