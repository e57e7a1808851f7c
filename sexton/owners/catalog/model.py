"""Values of the catalog's records and of its operations, its errors, and the names of rowsets' files. Pure.

Ids contain no ``_``, so a key has one meaning: rowset ``12`` and rowset ``12-3`` share no prefix that is listed.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from sexton.contract import MAX_BYTES
from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message, StrictMessage
from sexton.owners.plugin import FrontEndOptions
from sexton.owners.port import RecordConflict, RecordMissing


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
            raise WrongUsage(f"{id_!r} is not an id: letters, digits, '.' and '-', at most 128, neither '.' nor '..'")


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

    ``bitmap``: it has a delete bitmap. ``format_``: how its inverted indexes are stored. ``inverted``: those of its
    schema; empty: it has no index file.
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


class TxnStatus(StrEnum):
    """The states of a transaction. The column is free text: any other value means that the record is corrupt."""

    PREPARED = "PREPARED"
    PRECOMMITTED = "PRECOMMITTED"
    COMMITTED = "COMMITTED"
    VISIBLE = "VISIBLE"
    ABORTED = "ABORTED"


FINISHED = (TxnStatus.VISIBLE, TxnStatus.ABORTED)


class RowsetState(StrEnum):
    """The states of a rowset. ``TMP``: written, but its load is not committed."""

    PREPARED = "prepared"
    TMP = "tmp"
    VISIBLE = "visible"
    DROPPED = "dropped"
    COMPACTED = "compacted"


TXN, JOB = "txn.", "job."
"""Prefixes of an ``owner_txn``; the id of the transaction or compaction job follows."""


MOST_INVERTED, MOST_SEGMENTS = 100, 10_000
"""Together they bound the files of one rowset, whose names a claim and a check must hold at once."""
MOST_CHARACTERS = 256
"""Of the label of a load."""


class Schema(StrictMessage):
    """One version of an index's schema, as far as file names depend on it."""

    format: IndexFormat = IndexFormat.V2
    inverted: tuple[str, ...] = Field(default=(), max_length=MOST_INVERTED)


class NewTable(StrictMessage):
    """A new table: index → schema (version 1), and partition → tablets for each index."""

    id: str
    indexes: Mapping[str, Schema] = Field(min_length=1)
    partitions: Mapping[str, int] = Field(default_factory=dict)


class Output(Message):
    """A rowset that was announced: its files must be written under ``prefix`` in ``vault``."""

    rowset: str
    tablet: str
    vault: str
    prefix: str


class Written(StrictMessage):
    """A rowset whose files are written. ``format``: the index format, where it differs from its schema's."""

    rowset: str
    segments: int = Field(ge=0, le=MOST_SEGMENTS)
    bytes: int = Field(default=0, ge=0, le=MAX_BYTES)
    format: IndexFormat | None = None
    bitmap: bool = False


class Job(Message):
    """A compaction that runs: the rowsets that it reads, and the one that it writes."""

    id: str
    inputs: tuple[str, ...]
    output: Output


class ShownPart(Message):
    """An index or a partition of a table."""

    id: str
    dropped: bool


class ShownTable(Message):
    """A table with its parts; the sums are over the visible rowsets of its tablets."""

    id: str
    dropped: bool
    indexes: tuple[ShownPart, ...] = ()
    partitions: tuple[ShownPart, ...] = ()
    tablets: int = 0
    rowsets: int = 0
    bytes: int = 0


class ShownRowset(Message):
    """A rowset, and the versions that it holds; a rowset that is not visible yet has none."""

    id: str
    state: str
    vault: str
    segments: int
    bytes: int
    first_version: int | None = None
    last_version: int | None = None


class CatalogOptions(FrontEndOptions):
    """What an instance of the catalog may be added with."""

    front_end_kinds: str = "table,index,partition,tablet,rowset,segment"


class RecordNotFound(RecordMissing):
    """A table, index, partition, tablet, rowset, transaction or job has no record."""

    name = "NOT_FOUND"


class AlreadyThere(RecordConflict):
    """A record with this id exists already."""


class AlreadyDropped(RecordConflict):
    """The object or one of its ancestors was dropped."""

    name = "DROPPED"


class LabelTaken(RecordConflict):
    """A transaction with this label runs or is visible."""


class WrongState(RecordConflict):
    """The transaction or rowset is not in the state that the operation requires."""
