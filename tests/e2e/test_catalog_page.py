"""docs/catalog.md, run as it is written: a table, a load and a drop; then a round deletes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import settings
from tests.e2e.test_guides import blocks
from tests.integration.owners.catalog.shop import GRACE, RETAINED, Shop
from tests.support.rig import DEPLOYMENT, listing


@pytest.mark.slow
def test_the_page_on_the_catalog(tmp_path: Path) -> None:
    variables = os.environ | settings(tmp_path, "127.0.0.1:1") | {"SEXTON_DEPLOYMENT": DEPLOYMENT}
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("sexton", "-m sexton"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (programs / name).chmod(0o755)
    variables["PATH"] = f"{programs}:{variables['PATH']}"
    script = "\n".join(["set -u", "sexton init", *blocks("catalog.md", "sh")])

    ran = subprocess.run(
        ["bash", "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    before = set(listing(tmp_path / "lake"))
    shop = Shop(variables["SEXTON_DATABASE_URL"])
    shop.registry.enable("lake")
    shop.later(RETAINED)
    shop.round("lake")
    shop.later(GRACE + 1)
    shop.round("lake")
    shop.close()

    assert ran.stderr == ""
    assert "visible" in ran.stdout
    assert {key.split("/")[0] for key in before} == {"data"}
    assert listing(tmp_path / "lake") == {}
