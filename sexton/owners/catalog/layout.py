"""Where a rowset's files are, and what a file's name says: key → what it is, and back.

Pure. Ids hold no ``_``, so a name has one meaning: rowset ``12`` and rowset ``12-3`` share no prefix that is listed.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.errors import BadInput


class IndexFormat(StrEnum):
    """How inverted indexes are kept: a file for each index of each segment (V1), or one for each segment (V2)."""

    V1 = "V1"
    V2 = "V2"


class FileKind(StrEnum):
    """What a file of a rowset holds."""

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
_ONE = r"(?!\.{1,2}[/_])[A-Za-z0-9.-]{1,128}"
FILE_NAME = (
    rf"{ROOT}(?P<tablet>{_ONE})/(?P<record>{_ONE})_"
    rf"(?:(?P<data>{_NUMBER})\.dat|(?P<v2>{_NUMBER})\.idx|(?P<v1>{_NUMBER})_(?P<inverted>(?!\.{{1,2}}\.idx$)"
    r"[A-Za-z0-9.-]{1,128})\.idx|(?P<bitmap>delete_bitmap\.db))"
)
"""The regular expression that every key of a rowset's file matches, and nothing else; ``record``: the rowset's id."""
_NAME = re.compile(FILE_NAME)


def check_id(*ids: str) -> None:
    """Refuse what cannot be part of a key: other characters than ``[A-Za-z0-9.-]``, ``.`` and ``..``, over 128.

    Raises:
        BadInput: naming the id.
    """
    for i in ids:
        if not _ID.fullmatch(i) or i in (".", ".."):
            raise BadInput(f"{i!r} is not an id: letters, digits, '.' and '-', at most 128, and neither '.' nor '..'")


def tablet_prefix(tablet: str) -> str:
    """Return the prefix of everything a tablet has in a vault."""
    check_id(tablet)
    return f"{ROOT}{tablet}/"


def rowset_prefix(tablet: str, rowset: str) -> str:
    """Return the prefix of everything a rowset has."""
    check_id(rowset)
    return f"{tablet_prefix(tablet)}{rowset}_"


def key(file: RowsetFile) -> str:
    """Return the key of a file; ``parse`` gives the file back."""
    prefix = rowset_prefix(file.tablet, file.rowset)
    if file.kind is FileKind.BITMAP:
        return f"{prefix}delete_bitmap.db"
    if file.kind is FileKind.INDEX_V1:
        check_id(file.inverted or "")
        return f"{prefix}{file.segment}_{file.inverted}.idx"
    return f"{prefix}{file.segment}.{'dat' if file.kind is FileKind.DATA else 'idx'}"


def parse(name: str) -> RowsetFile | None:
    """Return what a key names, None where it is no file of a rowset."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    part = found.groupdict()
    whose = (part["tablet"], part["record"])
    if part["bitmap"]:
        return RowsetFile(FileKind.BITMAP, *whose)
    if part["v1"]:
        return RowsetFile(FileKind.INDEX_V1, *whose, int(part["v1"]), part["inverted"])
    return RowsetFile(FileKind.DATA if part["data"] else FileKind.INDEX_V2, *whose, int(part["data"] or part["v2"]))


def rowset_keys(
    tablet: str, rowset: str, segments: int, bitmap: bool, format_: IndexFormat, inverted: Sequence[str]
) -> list[str]:
    """Return the exact keys of a written rowset.

    Args:
        tablet: its tablet.
        rowset: its id.
        segments: how many segments it has.
        bitmap: whether it has a delete bitmap.
        format_: how its inverted indexes are kept.
        inverted: the inverted indexes of its schema; none: it has no index file.
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
