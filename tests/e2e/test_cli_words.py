"""Each exit code has one meaning, and no table loses text at any width."""

import re
from collections import Counter

import pytest

from sexton.interfaces.cli.output import show_table
from tests.e2e.conftest import Run

COLUMNS = ("held by", "what", "why / way out")
ROWS = [
    ("hold 1", "the whole instance", "an audit until Friday, see ticket 4711 and the mail " * 3),
    ("owner's transaction", "12 marks", "it goes by itself"),
]


@pytest.mark.slow
def test_wrong_usage_is_64_and_help_is_0(sexton: Run) -> None:
    codes = {
        words: sexton(*words).returncode
        for words in ((), ("--help",), ("nonsense",), ("plan", "--bogus"), ("apply", "x"), ("round",))
    }
    help_ = sexton("--help")

    assert codes == {
        (): 64,
        ("--help",): 0,
        ("nonsense",): 64,
        ("plan", "--bogus"): 64,
        ("apply", "x"): 64,
        ("round",): 64,
    }
    assert "64 wrong usage" in " ".join(help_.stdout.split())


@pytest.mark.parametrize("width", [40, 80, 300])
def test_a_table_loses_no_character_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", str(width))

    show_table(COLUMNS, ROWS)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)

    expected = Counter("".join(cell for row in ROWS for cell in row).replace(" ", ""))
    assert expected - Counter(printed) == Counter()
    assert max(len(line) for line in printed.splitlines()) <= width


def test_a_piped_table_ignores_the_width_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    show_table(COLUMNS, [(f"hold {n}", "12 marks", "") for n in range(3)])
    printed = capsys.readouterr().out

    assert [line.split() for line in printed.splitlines()[2:]] == [["hold", str(n), "12", "marks"] for n in range(3)]
