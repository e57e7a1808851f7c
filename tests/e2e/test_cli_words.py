"""Exit codes have one meaning, tables lose no text, no name or reason steers a terminal; JSON is unchanged."""

import json
import sys
import unicodedata
from collections import Counter

import pytest

from sexton.check.model import FindingType
from sexton.contract import NewMark
from sexton.interfaces.cli.output import show_table
from sexton.operators.access import policy
from sexton.operators.call_log import CallRecord
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.protection.model import Protection
from tests.e2e.conftest import Run, items
from tests.support.rig import Rig

HOSTILE = "".join(
    chr(n) for n in (*range(1, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028)
)
FORGED = "\n  last success: yesterday\x1b[2J\x1b]0;title\x07\u202eevil\u2066\x9b31m"
MARK = "mark\n  last success: yesterday\t\r\x1b[2J\x07\x7f\x85\x9b\u202a\u202e\u2066\u2069\u2028"
"""No id of a mark has such characters; a hold may name one."""
COMMANDS = (
    "status",
    "blockers",
    "blockers shop",
    "log",
    "plan shop",
    "plan list",
    "check show 1",
    "check findings shop",
    "check list",
    "lists show",
    "token list",
    "protection list",
    "quarantine list shop",
    "round list",
    "deletions 1",
    "settings show",
)


def text(name: str) -> str:
    return f"{name}{HOSTILE}{FORGED}"


@pytest.fixture
def hostile(shop: Rig) -> Rig:
    """Fill the database with names, keys and reasons of an owner and of operators that have every such character."""
    stores = shop.all_stores
    shop.mark("dropped", NewMark(id="mark", vault="disk", keys=(text("data/b"),), bytes=10))
    stores.controls.put(ControlKind.STOP, "shop", text("reason"), by=text("user"))
    stores.holds.place(
        Hold(instance="shop", scope="mark", mark_kind="table", mark_id=text("t"), reason=text("hold")), 60
    )
    stores.tokens.create(policy.scope("read"), 1, text("by"), text("note"))
    protection = Protection(instance="shop", job="copy", owner="ada", digest="0" * 64)
    stores.protections.open(protection, 60)
    run = stores.checks.begin("shop", "run", text("by"))
    t = shop.db.t
    finding = {"instance": "shop", "type": FindingType.ORPHAN, "vault": "disk", "key": text("key"), "detail": text("d")}
    with shop.db.write() as c:
        c.execute(t.check_run.update().values(missing_inputs=[text("input")], state="PARTIAL", ended_at=1))
        c.execute(t.finding.insert().values(**finding, state="OPEN", first_seen=1, seen_in=run.id))
        c.execute(t.protection.update().values(owner=text("owner"), description=text("why")))
        c.execute(t.mark.update().values(quarantined_reason="DELETE_FAILED", last_error=text("error")))
    call = CallRecord(
        who=text("who"), source=text("from"), action=text("did"), subject=text("what"), reason=text("why")
    )
    shop.calls.append(call)
    return shop


def steering(printed: str) -> set[str]:
    """Return the characters of a command's output that steer a terminal, but the line breaks of its own."""
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return {
        c
        for c in printed
        if c != "\n" and (unicodedata.category(c) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(c) in bidi)
    }


COLUMNS = ("held by", "what", "why / way out")
ROWS = [
    ("hold 1", "the whole instance", "an audit until Friday, see ticket 4711 and the mail " * 3),
    ("owner's transaction", "12 marks", "it goes by itself"),
]


@pytest.mark.parametrize("width", [40, 80, 300])
def test_a_table_loses_no_character_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    show_table(COLUMNS, ROWS)
    printed = capsys.readouterr().out

    expected = Counter("".join(cell for row in ROWS for cell in row).replace(" ", ""))
    assert expected - Counter(printed) == Counter()
    assert max(len(line) for line in printed.splitlines()) <= width


@pytest.mark.parametrize("width", range(20, 50))
def test_a_table_of_short_cells_loses_no_character(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such columns are never folded: where the terminal is exactly as wide, their last character was cut."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    show_table(("a", "b", "c"), [("123456789", "abcdefghi", "ABCDEFGHI")])
    printed = capsys.readouterr().out

    assert all(cell in printed for cell in ("123456789", "abcdefghi", "ABCDEFGHI"))


def test_a_row_of_many_cells_is_printed_in_any_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")

    show_table([f"c{n:02}" for n in range(12)], [[f"v{n:02}" for n in range(12)]])

    assert capsys.readouterr().out.splitlines() == ["v00", *(f"  c{n:02}: v{n:02}" for n in range(1, 12))]


def test_a_piped_table_ignores_the_width_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    show_table(COLUMNS, [(f"hold {n}", "12 marks", "") for n in range(3)])
    printed = capsys.readouterr().out

    assert [line.split() for line in printed.splitlines()[2:]] == [["hold", str(n), "12", "marks"] for n in range(3)]


def test_no_command_prints_what_steers_a_terminal_except_as_json(offline: Run, hostile: Rig) -> None:
    calls = items(offline("log", "--json"))
    stream = [json.loads(line) for line in offline("log", "--json", "--since", "0").stdout.splitlines()]
    for command in COMMANDS:
        ran = offline(*command.split())

        assert ran.returncode in (0, 1, 2), ran.stderr
        assert steering(ran.stdout + ran.stderr) == set()
        assert "  last success: yesterday" not in ran.stdout.splitlines()

    found, unknown = offline("why", text("data/b")), offline("why", MARK)
    assert (found.returncode, unknown.returncode) == (0, 1), found.stderr
    assert steering(found.stdout + found.stderr) == set()
    assert steering(unknown.stderr) - {"\t"} == set()
    assert not any(line.startswith("  last success: yesterday") for line in found.stdout.splitlines())
    assert calls[0]["reason"] == stream[-1]["reason"] == text("why")
    assert [f["key"] for f in items(offline("check", "findings", "shop", "--json"))] == [text("key")]
    assert [t["note"] for t in items(offline("token", "list", "--json"))] == [text("note")]


def test_wrong_usage_is_64_and_help_is_0(offline: Run) -> None:
    wrong = ((), ("nonsense",), ("plan", "--bogus"), ("apply", "x"), ("round",))
    help_ = offline("--help")

    assert {words: offline(*words).returncode for words in wrong} == dict.fromkeys(wrong, 64)
    assert (help_.returncode, "64 wrong usage" in " ".join(help_.stdout.split())) == (0, True)
