"""Convert between rowset files and their keys. Pure.

Ids contain no ``_``, so a key has one meaning: rowset ``12`` and rowset ``12-3`` share no prefix that is listed.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.errors import BadInput


class IndexFormat(StrEnum):
    """How inverted indexes are stored: one file for each index of each segment (V1), or one for each segment (V2)."""

    V1 = "V1"
    V2 = "V2"


class FileKind(StrEnum):
    """The content of a rowset's file."""

    DATA = "data"
    INDEX_V1 = "index-v1"
    INDEX_V2 = "index-v2"
    BITMAP = "bitmap"


class RowsetFile(NamedTuple):
    """One file of a rowset. A bitmap has no segment; only an ``INDEX_V1`` names one inverted index."""

    kind: FileKind
    tablet: str
    rowset: str
    segment: int | None = None
    inverted: str | None = None


ROOT = "data/"
_ID = re.compile(r"[A-Za-z0-9.-]{1,128}")
_NUMBER = "0|[1-9][0-9]*"
_SAFE_ID = r"(?!\.{1,2}[/_])[A-Za-z0-9.-]{1,128}"
FILE_NAME = (
    rf"{ROOT}(?P<tablet>{_SAFE_ID})/(?P<record>{_SAFE_ID})_"
    rf"(?:(?P<data>{_NUMBER})\.dat|(?P<v2>{_NUMBER})\.idx|(?P<v1>{_NUMBER})_(?P<inverted>(?!\.{{1,2}}\.idx$)"
    r"[A-Za-z0-9.-]{1,128})\.idx|(?P<bitmap>delete_bitmap\.db))"
)
"""The regular expression that matches the keys of rowset files and nothing else; ``record``: the rowset's id."""
_NAME = re.compile(FILE_NAME)


def check_id(*ids: str) -> None:
    """Check that ids can be part of a key: 1 to 128 characters of ``[A-Za-z0-9.-]``, except ``.`` and ``..``.

    Raises:
        BadInput: one cannot; the message names it.
    """
    for id_ in ids:
        if not _ID.fullmatch(id_) or id_ in (".", ".."):
            raise BadInput(f"{id_!r} is not an id: letters, digits, '.' and '-', at most 128, and neither '.' nor '..'")


def tablet_prefix(tablet: str) -> str:
    """Return the prefix of all files of a tablet in a vault."""
    check_id(tablet)
    return f"{ROOT}{tablet}/"


def rowset_prefix(tablet: str, rowset: str) -> str:
    """Return the prefix of all files of a rowset."""
    check_id(rowset)
    return f"{tablet_prefix(tablet)}{rowset}_"


def key(file: RowsetFile) -> str:
    """Return the key of a file; ``parse`` is its inverse."""
    prefix = rowset_prefix(file.tablet, file.rowset)
    if file.kind is FileKind.BITMAP:
        return f"{prefix}delete_bitmap.db"
    if file.kind is FileKind.INDEX_V1:
        check_id(file.inverted or "")
        return f"{prefix}{file.segment}_{file.inverted}.idx"
    return f"{prefix}{file.segment}.{'dat' if file.kind is FileKind.DATA else 'idx'}"


def parse(name: str) -> RowsetFile | None:
    """Return the rowset file that a key names; None: it names none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    part = match.groupdict()
    tablet, rowset = part["tablet"], part["record"]
    if part["bitmap"]:
        return RowsetFile(FileKind.BITMAP, tablet, rowset)
    if part["v1"]:
        return RowsetFile(FileKind.INDEX_V1, tablet, rowset, int(part["v1"]), part["inverted"])
    return RowsetFile(
        FileKind.DATA if part["data"] else FileKind.INDEX_V2, tablet, rowset, int(part["data"] or part["v2"])
    )


def rowset_keys(
    tablet: str, rowset: str, segments: int, bitmap: bool, format_: IndexFormat, inverted: Sequence[str]
) -> list[str]:
    """Return the exact keys of a written rowset.

    Args:
        tablet: its tablet.
        rowset: its id.
        segments: how many segments it has.
        bitmap: whether it has a delete bitmap.
        format_: how its inverted indexes are stored.
        inverted: the inverted indexes of its schema; empty: it has no index file.
    """
    return [key(f) for f in _files(tablet, rowset, segments, bitmap, format_, inverted)]


def _files(
    tablet: str, rowset: str, segments: int, bitmap: bool, format_: IndexFormat, inverted: Sequence[str]
) -> Iterator[RowsetFile]:
    for n in range(segments):
        yield RowsetFile(FileKind.DATA, tablet, rowset, n)
        if format_ is IndexFormat.V2 and inverted:
            yield RowsetFile(FileKind.INDEX_V2, tablet, rowset, n)
        elif format_ is IndexFormat.V1:
            for index in inverted:
                yield RowsetFile(FileKind.INDEX_V1, tablet, rowset, n, index)
    if bitmap:
        yield RowsetFile(FileKind.BITMAP, tablet, rowset)
