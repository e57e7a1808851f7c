"""`sexton catalog`: its operations, values and refusals; and docs/catalog.md, run as it is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Run, settings
from tests.e2e.test_guides import blocks
from tests.integration.owners.catalog.shop import GRACE, RETAINED, Shop
from tests.support.rig import DEPLOYMENT, listing


def test_operations_are_run_listed_logged_and_refused(offline: Run) -> None:
    for words in (("init",), ("instance", "add", "shop"), ("instance", "add", "lake", "--owner", "catalog")):
        assert offline(*words).returncode == 0

    created = offline("catalog", "lake", "create-table", "id=t", 'indexes={"i": {}}', 'partitions={"p": 2}')
    shown = offline("catalog", "lake", "show")
    tablets = json.loads(offline("catalog", "lake", "tablets", "table=t", "--json").stdout)["result"]
    dropped = offline("catalog", "lake", "drop-table", "table=t")
    log, operations = offline("log"), offline("catalog", "lake")
    many = "[" * 100_000
    answers = {
        words: (answer.returncode, answer.stderr)
        for words in (
            "drop-tabel",
            "drop-table",
            "drop-table tables=t",
            "drop-table table=x",
            "drop-table table=t table=u",
            "drop-rowset rowsets=1 rowsets=2",
            f"drop-rowset rowsets={many}",
        )
        for answer in [offline("catalog", "lake", *words.split())]
    }

    assert (created.returncode, created.stdout, dropped.returncode) == (0, "done\n", 0)
    assert "t   no" in shown.stdout
    assert len(tablets) == 2
    assert ("catalog drop-table" in log.stdout, "catalog show" in log.stdout) == (True, False)
    assert operations.stdout.count("\n") > 20
    assert "indexes={…}" in operations.stdout
    assert answers == {
        "drop-tabel": (64, "error: owner catalog has no operation drop-tabel; all of them: sexton catalog lake\n"),
        "drop-table": (64, "error: drop-table takes table=TEXT; wrong are: table: Field required\n"),
        "drop-table tables=t": (64, "error: 'tables=t' is no value of drop-table; it takes: table=TEXT\n"),
        "drop-table table=x": (1, "error: there is no x among the tables\n"),
        "drop-table table=t table=u": (64, "error: table is given twice; it takes one value\n"),
        "drop-rowset rowsets=1 rowsets=2": (1, "error: there is no 1, 2 among the rowsets\n"),
        f"drop-rowset rowsets={many}": (1, f"error: there is no {many} among the rowsets\n"),
    }
    assert "the owner of shop is sql, not catalog" in offline("catalog", "shop", "show").stderr


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
        ["bash", "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=1000
    )
    before = set(listing(tmp_path / "lake"))
    shop = Shop(variables["SEXTON_DATABASE_URL"])
    shop.registry.enable("lake")
    shop.later(RETAINED)
    shop.round("lake")
    shop.later(GRACE + 1)
    shop.round("lake")
    shop.close()

    assert ran.stderr == "" or ran.stderr.startswith("warning: role postgres is a superuser")
    assert "visible" in ran.stdout
    assert {key.split("/")[0] for key in before} == {"data"}
    assert listing(tmp_path / "lake") == {}
