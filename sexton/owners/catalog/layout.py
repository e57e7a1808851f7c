"""Name the files of rowsets, and read these names. Pure.

Ids contain no ``_``, so a key has one meaning: rowset ``12`` and rowset ``12-3`` share no prefix that is listed.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.errors import BadInput


class IndexFormat(StrEnum):
    """How inverted indexes are stored: one file for each index of each segment (V1), or one for each segment (V2)."""

    V1 = "V1"
    V2 = "V2"


class RowsetFile(NamedTuple):
    """The tablet and the rowset to which a file belongs."""

    tablet: str
    rowset: str


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


def parse(name: str) -> RowsetFile | None:
    """Return whose file a key names; None: it names none."""
    match = _NAME.fullmatch(name)
    return None if match is None else RowsetFile(match["tablet"], match["record"])


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
    prefix = rowset_prefix(tablet, rowset)
    suffixes = [".dat"]
    if format_ is IndexFormat.V1:
        check_id(*inverted)
        suffixes += [f"_{index}.idx" for index in inverted]
    elif inverted:
        suffixes.append(".idx")
    keys = [f"{prefix}{segment}{suffix}" for segment in range(segments) for suffix in suffixes]
    return [*keys, f"{prefix}delete_bitmap.db"] if bitmap else keys
