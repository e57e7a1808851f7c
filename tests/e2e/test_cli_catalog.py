"""`sexton catalog`: the operations of the catalog, their values, and what wrong ones are answered with."""

import json
from pathlib import Path

from tests.e2e.conftest import Run


def test_a_table_is_created_shown_and_dropped(offline: Run) -> None:
    for words in (("init",), ("instance", "add", "lake", "--owner", "catalog")):
        assert offline(*words).returncode == 0

    created = offline("catalog", "lake", "create-table", "id=t", 'indexes={"i": {}}', 'partitions={"p": 2}')
    shown = offline("catalog", "lake", "show")
    tablets = json.loads(offline("catalog", "lake", "tablets", "table=t", "--json").stdout)["result"]
    dropped = offline("catalog", "lake", "drop-table", "table=t")
    log = offline("log")

    assert (created.returncode, created.stdout) == (0, "done\n")
    assert "t   no" in shown.stdout
    assert len(tablets) == 2
    assert dropped.returncode == 0
    assert "catalog drop-table" in log.stdout
    assert "catalog show" not in log.stdout


def test_wrong_words_are_answered(offline: Run) -> None:
    offline("init")
    offline("instance", "add", "shop")
    offline("instance", "add", "lake", "--owner", "catalog")

    operations = offline("catalog", "lake")
    answers = {
        words: (answer.returncode, answer.stderr)
        for words in (
            "drop-tabel",
            "drop-table",
            "drop-table tables=t",
            "drop-table table=t",
            "drop-table table=t table=u",
            "drop-rowset rowsets=1 rowsets=2",
            f"drop-rowset rowsets={'[' * 100_000}",
            "drop-instance",
        )
        for answer in [offline("catalog", "lake", *words.split())]
    }

    assert operations.stdout.count("\n") > 20
    assert "written={…}" in operations.stdout
    assert answers == {
        "drop-tabel": (64, "error: owner catalog has no operation drop-tabel; all of them: sexton catalog lake\n"),
        "drop-table": (64, "error: drop-table takes table=TEXT; wrong are: table: Field required\n"),
        "drop-table tables=t": (64, "error: 'tables=t' is no value of drop-table; it takes: table=TEXT\n"),
        "drop-table table=t": (1, "error: there is no t among the tables\n"),
        "drop-table table=t table=u": (64, "error: table is given twice; it takes one value\n"),
        "drop-rowset rowsets=1 rowsets=2": (1, "error: there is no 1, 2 among the rowsets\n"),
        f"drop-rowset rowsets={'[' * 100_000}": (1, f"error: there is no {'[' * 100_000} among the rowsets\n"),
        "drop-instance": (
            1,
            "error: the log of deletions is in the vaults of lake, which an operator may empty afterwards; set "
            "audit.audit_url to a place elsewhere first\n",
        ),
    }
    assert "the owner of shop is sql, not catalog" in offline("catalog", "shop", "show").stderr


def test_a_dropped_instance_is_undropped(offline: Run, tmp_path: Path) -> None:
    offline("init")
    offline("instance", "add", "lake", "--owner", "catalog")
    elsewhere = {"SEXTON_AUDIT__AUDIT_URL": f"file://{tmp_path.parent}/audit-elsewhere"}

    offline("vault", "add", "lake", "disk", "--local", str(tmp_path))
    inside = offline("catalog", "lake", "drop-instance", SEXTON_AUDIT__AUDIT_URL=f"file://{tmp_path}/audit")
    dropped = offline("catalog", "lake", "drop-instance", **elsewhere)
    shown = offline("instance", "list")
    examined = offline("doctor", "--json")
    missing = offline("doctor", "--json", SEXTON_AUDIT__AUDIT_URL=f"file://{tmp_path.parent}/not-there")
    refused = offline("catalog", "lake", "begin", "label=a", "timeout_seconds=60")
    undropped = offline("catalog", "lake", "undrop-instance")
    begun = offline("catalog", "lake", "begin", "label=a", "timeout_seconds=60")

    assert "to a place elsewhere first" in inside.stderr
    assert "observe, dropped" in shown.stdout
    states = {item["about"]: item["state"] for item in json.loads(examined.stdout)["items"]}
    assert [states[about] for about in ("live objects", "checks", "log of deletions")] == ["OK", "OK", "OK"]
    [fault] = [item for item in json.loads(missing.stdout)["items"] if item["about"] == "log of deletions"]
    assert (fault["state"], "NO_BUCKET" in fault["detail"]) == ("FAIL", True)
    assert [r.returncode for r in (dropped, refused, undropped, begun)] == [0, 1, 0, 0]
    assert "undrop it to use it again" in refused.stderr
