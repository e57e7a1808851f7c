"""`sexton catalog`: the operations of the catalog, their values, and what wrong ones are answered with."""

import json

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
        )
        for answer in [offline("catalog", "lake", *words.split())]
    }

    assert operations.stdout.count("\n") > 20
    assert "indexes={…}" in operations.stdout
    assert answers == {
        "drop-tabel": (64, "error: owner catalog has no operation drop-tabel; all of them: sexton catalog lake\n"),
        "drop-table": (64, "error: drop-table takes table=TEXT; wrong are: table: Field required\n"),
        "drop-table tables=t": (64, "error: 'tables=t' is no value of drop-table; it takes: table=TEXT\n"),
        "drop-table table=t": (1, "error: there is no t among the tables\n"),
        "drop-table table=t table=u": (64, "error: table is given twice; it takes one value\n"),
        "drop-rowset rowsets=1 rowsets=2": (1, "error: there is no 1, 2 among the rowsets\n"),
        f"drop-rowset rowsets={'[' * 100_000}": (1, f"error: there is no {'[' * 100_000} among the rowsets\n"),
    }
    assert "the owner of shop is sql, not catalog" in offline("catalog", "shop", "show").stderr
