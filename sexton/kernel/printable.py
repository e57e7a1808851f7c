r"""Escape characters that steer a terminal or reorder what it shows, in text that comes from owners and operators.

They are C0 and C1 controls (ESC among them), the controls of writing direction, line separators and lone surrogates.
Each becomes ``\uXXXX``, which means the same character in JSON.
"""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

PRINTABLE = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029]*$"
"""A pattern of one line, for texts that are written to logs."""
_BUT_LINES = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return the text as one line: everything is escaped, line breaks and tabs included."""
    return printable_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def printable_lines(text: str) -> str:
    """Return the text with everything escaped but line breaks and tabs."""
    return _BUT_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class EscapingStream:
    """A text stream that escapes what is written to it; ``unescaped`` is the stream below."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        """Write the escaped text; return the length of the given one."""
        self.unescaped.write(printable_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape everything that this process writes to its standard streams until the block ends.

    What the encoding of a stream lacks, in a locale that is not UTF-8, is written as an escape, too.
    """
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A stream is None when the parent process closed it.
    sys.stdout, sys.stderr = (stream and EscapingStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
