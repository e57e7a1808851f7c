"""Control characters and controls of writing direction never reach a terminal or a line of a log."""

import io
import json
import sys
import unicodedata

import pytest

from sexton.kernel.printable import EscapingStream, escaped_output, printable, printable_lines

HOSTILE = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    "\u061c",
    *map(chr, (0x200E, 0x200F, 0x2028, 0x2029)),
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
    "\ud800",
    "\udfff",
]


def is_harmless(text: str) -> bool:
    """Tell whether no character is a control, steers the writing direction or ends a line."""
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    shown = set(text)
    return {"Cc", "Zl", "Zp", "Cs"}.isdisjoint(map(unicodedata.category, shown)) and bidi.isdisjoint(
        map(unicodedata.bidirectional, shown)
    )


def test_each_hostile_character_is_escaped() -> None:
    for character in HOSTILE:
        lines = printable_lines(f"a{character}b").replace("\n", "").replace("\t", "")

        assert printable(f"a{character}b").startswith("a\\"), hex(ord(character))
        assert lines.isprintable(), hex(ord(character))


def test_every_character_of_unicode_is_harmless_when_shown() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))

    assert is_harmless(printable(every))


def test_other_text_is_unchanged() -> None:
    text = "naïve café データ/12 ünï ₿ שלום"

    assert printable(text) == text
    assert printable_lines("two\n\tlines") == "two\n\tlines"


def test_escaped_json_means_the_same() -> None:
    names = {c: c for c in HOSTILE if not "\ud800" <= c <= "\udfff"}

    assert json.loads(printable_lines(json.dumps(names, ensure_ascii=False))) == names


def test_a_stream_escapes_what_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    below = io.StringIO()
    EscapingStream(below).write("a\x1b[2Jb\n")
    with escaped_output():
        print("c\u202ed")
        print("e\x9bf", file=sys.stderr)
    print("\x1b[0m")

    assert below.getvalue() == "a\\u001b[2Jb\n"
    assert capsys.readouterr() == ("c\\u202ed\n\x1b[0m\n", "e\\u009bf\n")


def test_a_closed_standard_stream_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    with escaped_output():
        assert sys.stdout is None
