"""Values of the catalog's records and of its operations, and its errors."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from sexton.contract import MAX_BYTES
from sexton.kernel.message import Message, StrictMessage
from sexton.owners.catalog.layout import IndexFormat
from sexton.owners.port import RecordConflict, RecordMissing


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


class FrontEndOptions(Message):
    """What an instance of the catalog may be added with. The other options are those of ``CallOptions``.

    ``front_end``: where the front end answers, without ``/v1``; empty: checks compare records and objects only.
    """

    front_end: str = ""
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    ca_certs: str = ""


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
