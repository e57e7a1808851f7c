"""Hold the outcome of each file of a list, and encode it as compressed JSON. Pure."""

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from sexton.kernel.errors import SextonError
from sexton.storage.model import KeyOutcome, KeyResult

WAY_OUT = "the next round quarantines its marks, see: sexton quarantine list"
COMPRESSION = 1
"""Of zlib, the fastest: keys of one folder shrink to a tenth, whatever the level."""
UNTRIED, DROPPED = ord("."), ord("x")
"""Codes of files that were not tried yet, and that no longer belong to the list: nothing is done about these."""
CODES: Mapping[KeyOutcome, int] = {
    KeyOutcome.DELETED: ord("d"),
    KeyOutcome.ABSENT: ord("a"),
    KeyOutcome.HIDDEN: ord("h"),
    KeyOutcome.FAILED: ord("f"),
    KeyOutcome.CHANGED: ord("c"),
}
OUTCOMES: Mapping[int, KeyOutcome] = {code: outcome for outcome, code in CODES.items()}
UNDONE_CODES = frozenset((UNTRIED, CODES[KeyOutcome.FAILED]))


class Origin(NamedTuple):
    """Which round tried a file, and in which batch its outcome was stored first; 0: in that of its list."""

    round: int
    batch: int = 0


class DamagedList(SextonError):
    """A stored file list cannot be read: its bytes were changed."""


class FileResults:
    """The outcome of each file of a list, by its position. Outcomes only move towards done."""

    def __init__(
        self,
        codes: bytearray,
        reasons: dict[int, str],
        sizes: dict[int, int],
        round_: int = 0,
        origins: dict[int, Origin] | None = None,
    ) -> None:
        """``codes``: one for each file. ``reasons``: position → why the delete failed.

        ``sizes``: position → bytes, as measured by the deletion. ``round_``: the round that tried the files first; 0:
        none has. ``origins``: position → which round tried the file last, where it is not ``round_`` and this list's
        batch.
        """
        self.codes, self.reasons, self.sizes = codes, reasons, sizes
        self.round, self.origins = round_, origins or {}

    @classmethod
    def untried(cls, files: int) -> "FileResults":
        """Return the results of so many files that were not tried yet."""
        return cls(bytearray([UNTRIED]) * files, {}, {})

    @classmethod
    def decode(cls, data: bytes) -> "FileResults":
        """Read encoded results; raise ``DamagedList`` if they are damaged."""
        value = load(data)
        try:
            codes, reasons, sizes, round_, origins = value
            failures, measured = ({int(position): one for position, one in v.items()} for v in (reasons, sizes))
            tried_by = {int(position): Origin(*one) for position, one in origins.items()}
            return cls(bytearray(codes, "ascii"), failures, measured, int(round_), tried_by)
        except (ValueError, TypeError, AttributeError) as e:
            raise DamagedList(f"stored results are damaged ({e}); {WAY_OUT}") from e

    def encode(self) -> bytes:
        """Return the results as bytes: a few dozen, where all files have the same outcome."""
        return dump([self.codes.decode("ascii"), self.reasons, self.sizes, self.round, self.origins])

    @property
    def all_dropped(self) -> bool:
        """Return whether nothing is left of the list."""
        return self.codes.count(DROPPED) == len(self.codes)

    def record(self, position: int, result: KeyResult, round_: int = 0) -> bool:
        """Store an outcome, unless the file is done or dropped already; return whether it was stored.

        A throttled file stays untried. ``round_``: the round that tried the file.
        """
        if self.codes[position] not in UNDONE_CODES or result.outcome is KeyOutcome.THROTTLED:
            return False
        self.round = self.round or round_
        self.origins.pop(position, None)
        if round_ != self.round:
            self.origins[position] = Origin(round_)
        self.codes[position] = CODES[result.outcome]
        self.reasons.pop(position, None)
        if result.reason:
            self.reasons[position] = result.reason[:500]
        if result.bytes is not None:
            self.sizes[position] = result.bytes
        return True

    def retry(self, position: int) -> None:
        """Let a failed file be tried again."""
        self.codes[position] = UNTRIED
        self.reasons.pop(position, None)
        self.origins.pop(position, None)

    def drop(self, position: int) -> None:
        """Take a file out of the list."""
        self.codes[position] = DROPPED
        self.reasons.pop(position, None)
        self.sizes.pop(position, None)
        self.origins.pop(position, None)


def dump(value: Any) -> bytes:
    """Return a JSON value as compressed bytes."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"), COMPRESSION)


def load(data: bytes) -> Any:
    """Return the JSON value of compressed bytes; raise ``DamagedList`` if they were changed."""
    try:
        return json.loads(zlib.decompress(data))
    except (zlib.error, ValueError, TypeError) as e:
        raise DamagedList(f"a stored file list is damaged ({e}); {WAY_OUT}") from e
