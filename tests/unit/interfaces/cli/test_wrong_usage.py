"""Wrong usage is answered in plain words, with exit code 64."""

import sys

import pytest

from sexton.interfaces.cli.main import WRONG_USAGE, run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("apply", "PLAN"), "it must be a whole number\n"),
        (("hold", "release", "first"), "'HOLD': it must be a whole number\n"),
        (("apply",), "Missing argument 'PLAN'.\n"),
        (("log", "--last", "0"), "it must be greater than or equal to 1\n"),
        (("trial", "advance", "-1h"), "No such option: -1 (no value may be negative)\n"),
        (("plan", "shoow", "1"), "There is no sexton plan shoow. Did you mean: sexton plan show?\n"),
    ],
)
def test_wrong_usage_is_answered_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["sexton", *words])

    code = run()

    error = capsys.readouterr().err
    assert (code, error[-len(says) :]) == (WRONG_USAGE, says)
    assert "Input should" not in error
