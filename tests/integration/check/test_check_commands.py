"""`sexton check` lists, shows, accepts, repairs and exports findings."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sexton.check import columns
from sexton.check.model import CheckRequest
from sexton.insight.progress import progress_lines
from sexton.storage.model import MARKER_KEY
from tests.integration.check.conftest import Owned, file_keys
from tests.support.command import run
from tests.support.rig import DAY


@pytest.fixture
def checked(owned: Owned) -> Owned:
    """An owner with two checks a day apart, which found a lost file, an orphan and an unknown kind."""
    owned.write_live(*file_keys(400))
    (owned.root / file_keys(400)[3]).unlink()
    owned.write_old("data/t9/r7_0.dat")
    owned.write_old("tmp/readme ü.txt")
    owned.check()
    owned.check(after=DAY + 60)
    return owned


def test_findings_are_listed_explained_accepted_and_repaired(
    checked: Owned, capsys: pytest.CaptureFixture[str]
) -> None:
    why = run(checked, capsys, "why", "data/t9/r7_0.dat")
    listed = run(checked, capsys, "check", "list", "shop", "--json")
    [second, first] = json.loads(listed.out)["items"]
    shown = run(checked, capsys, "check", "show", str(second["check"]))
    told = json.loads(run(checked, capsys, "check", "findings", "--json").out)["items"]
    lost = run(checked, capsys, "check", "findings", "shop", "--type", "LOST")
    odd = next(f["finding"] for f in told if f["type"] == "UNKNOWN_KIND")
    accepted = run(checked, capsys, "check", "accept", str(odd), "--reason", "put there by hand")
    left = checked.open_findings()
    counted = run(checked, capsys, "check", "repair", "orphans", "shop", "--dry-run")
    before = checked.count("mark")
    repaired = run(checked, capsys, "check", "repair", "orphans", "shop", "--yes")

    assert why.code == 0
    assert "ORPHAN, confirmed: data/t9/r7_0.dat in vault disk: no record names the object; finding " in why.out
    assert " of: sexton check findings shop --type ORPHAN" in why.out
    assert (first["state"], second["state"]) == ("WHOLE", "WHOLE")
    assert "401 objects" in shown.out
    assert {f["type"] for f in told} == {"LOST", "ORPHAN", "UNKNOWN_KIND"}
    assert file_keys(400)[3] in lost.out
    assert "data/t9" not in lost.out
    assert "UNKNOWN_KIND disk/tmp/readme ü.txt" in accepted.out
    assert left == {"LOST": {file_keys(400)[3]}, "ORPHAN": {"data/t9/r7_0.dat"}}
    assert "would mark 1 orphan for deletion" in counted.out
    assert before == 0
    assert "marked 1 orphan, kept 0" in repaired.out
    assert checked.count("mark", kind="orphan") == 1


def test_every_door_shows_how_far_a_check_is(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    owned.write_live(*file_keys(400))
    owned.check()
    order = owned.checker.begin(CheckRequest(instance="shop"), "second").order
    owned.runs.count(order.run, 100, 0, 10_000)
    number = str(order.run.id)
    commands = (("status", "shop"), ("check", "show", number), ("check", "list", "shop"))
    printed = [run(owned, capsys, *words).out for words in commands]
    status, shown, listed = (json.loads(run(owned, capsys, *words, "--json").out) for words in commands)
    lines = progress_lines(owned.db, "check", order.run.id)
    owned.checker.compare(owned.direct, order, lambda: None)
    compared = owned.runs.report(order.run.id).run

    text = "objects listed: 100 of about 400, records read: 0 of about 400, about 70 s left"
    assert [text in out for out in printed[:2]] == [True] * 2
    assert text.partition(", records")[0] in printed[2]  # the rest is in a second line of its column
    assert lines == [text]
    runs = [status["running"][0]["check"], shown["run"], listed["items"][0]]
    assert [(run["listed"], run["expected_objects"], run["seconds_left"]) for run in runs] == [(100, 400, 70.0)] * 3
    assert (compared.listed, compared.records, compared.seconds_left) == (400, 400, None)


def test_why_of_a_record_names_the_findings_about_it(checked: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    for name, finding in {
        "r7": "ORPHAN, confirmed: data/t9/r7_0.dat",
        "r3_0.dat": f"LOST, confirmed: {file_keys(400)[3]}",
        "rowset/r3_0.dat": f"LOST, confirmed: {file_keys(400)[3]}",
        "tmp/readme ü.txt": "UNKNOWN_KIND, not confirmed yet: tmp/readme ü.txt",
    }.items():
        assert f"{finding} in vault disk: " in run(checked, capsys, "why", name).out, name
    assert "in vault disk: " not in run(checked, capsys, "why", "r8").out


def test_a_rebase_accepts_only_what_a_check_could_see(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    def rebase(*options: str) -> str:
        printed = run(owned, capsys, "check", "rebase", "shop", "--reason", "the archive was dropped", *options)
        return printed.out + printed.err

    marker, keys = owned.root / MARKER_KEY, file_keys(20)
    owned.write_live(*keys)
    said = [rebase()]
    owned.check()
    said.append(rebase())
    for key in keys[5:]:
        (owned.root / key).unlink()
    owned.forget(*keys[5:])
    marker.rename(owned.root / "away")
    owned.check()
    said.append(rebase())
    (owned.root / "away").rename(marker)
    owned.check()
    said += [rebase(), rebase("--yes")]

    assert "was never checked" in said[0]
    assert "is complete, so there is nothing to accept" in said[1]
    assert "could not see everything" in said[2]
    assert "NO_MARKER" in said[2]
    assert "5 objects are far below the 20" in said[3]
    assert "Aborted" in said[3]
    assert "is not compared with earlier ones" in said[4]
    assert owned.check().whole


def test_status_shows_the_last_check(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    def checks() -> str:
        [line] = [x for x in run(owned, capsys, "status").out.splitlines() if "checks:" in x]
        return line.strip()

    before = checks()
    owned.write_live(*file_keys(30))
    owned.check()
    well = checks()
    (owned.root / file_keys(30)[3]).unlink()
    owned.check()
    owned.runs.begin("shop", "runs now")
    lost = checks()

    assert before == "checks: none has ended; to run one: sexton check run shop"
    assert well.startswith("checks: the last complete one: ")
    assert lost.startswith("checks: 1 LOST, confirmed: sexton check findings shop --type LOST; one is running since ")


def test_all_findings_are_exported_to_parquet(
    checked: Owned, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "PAGE_ROWS", 2)
    file = tmp_path / "findings.parquet"
    file.write_text("what was there")

    said = run(checked, capsys, "check", "findings", "shop", "--parquet", str(file))
    rows = pq.read_table(file).to_pylist()
    run(checked, capsys, "check", "findings", "shop", "--confirmed", "--type", "LOST", "--parquet", str(file))
    lost = pq.read_table(file).to_pylist()
    nowhere = run(checked, capsys, "check", "findings", "shop", "--parquet", str(tmp_path / "no" / "f.parquet"))

    assert said.out == f"3 findings of shop in {file}\n"
    assert {(r["type"], r["key"]) for r in rows} == {
        ("LOST", file_keys(400)[3]),
        ("ORPHAN", "data/t9/r7_0.dat"),
        ("UNKNOWN_KIND", "tmp/readme ü.txt"),
    }
    assert [r["key"] for r in lost] == [file_keys(400)[3]]
    assert rows[0]["first_seen"] is not None
    assert (nowhere.code, "cannot be written" in nowhere.err) == (1, True)
    assert [p.name for p in tmp_path.iterdir() if "parquet" in p.name] == ["findings.parquet"]


def test_bad_input_is_refused_with_a_reason(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in [
        (("findings", "shop", "--type", "MISSING"), "is not one of"),
        (("show", "99"), "there is no check 99"),
        (("accept", "99", "--reason", "why"), "99"),
        (("repair", "shop"), "is not one of 'orphans', 'lost'"),
        (("repair", "lost", "shop", "--limit", "1"), "--key-prefix and --limit go with orphans"),
        (("run", "none"), "none"),
        (("rebase", "shop", "--reason", " "), "reason"),
    ]:
        printed = run(owned, capsys, "check", *words)

        assert printed.code in (1, 64)
        assert says in printed.err
        assert "Traceback" not in printed.err
