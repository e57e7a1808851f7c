"""What the catalog's records say, as values."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from sexton.kernel.message import Message
from sexton.owners.catalog.layout import IndexFormat


class TxnStatus(StrEnum):
    """Where a transaction stands. The column is free text: anything else means that the record is corrupt."""

    PREPARED = "PREPARED"
    PRECOMMITTED = "PRECOMMITTED"
    COMMITTED = "COMMITTED"
    VISIBLE = "VISIBLE"
    ABORTED = "ABORTED"


FINISHED = (TxnStatus.VISIBLE, TxnStatus.ABORTED)


class RowsetState(StrEnum):
    """Where a rowset stands. ``TMP``: written, its load not committed."""

    PREPARED = "prepared"
    TMP = "tmp"
    VISIBLE = "visible"
    DROPPED = "dropped"
    COMPACTED = "compacted"


TXN, JOB = "txn.", "job."
"""How an ``owner_txn`` begins; the id of the transaction or compaction job follows."""


class Schema(Message):
    """One version of an index' schema, as far as file names depend on it."""

    format: IndexFormat = IndexFormat.V2
    inverted: tuple[str, ...] = ()


class NewTable(Message):
    """A table: its indexes with their schemas (version 1), and its partitions with how many tablets per index each has.

    The first index is the base one.
    """

    id: str
    indexes: Mapping[str, Schema] = Field(min_length=1)
    partitions: Mapping[str, int] = Field(default_factory=dict)


class Output(Message):
    """A rowset that is to be written: its files go under ``prefix`` of ``vault``."""

    rowset: str
    tablet: str
    vault: str
    prefix: str


class Written(Message):
    """What became of a rowset's files once they are written. ``format``: where it differs from its schema's."""

    rowset: str
    segments: int = Field(ge=0)
    bytes: int = Field(default=0, ge=0)
    format: IndexFormat | None = None
    bitmap: bool = False


class Job(Message):
    """A compaction that runs: what it reads and what it writes."""

    id: str
    inputs: tuple[str, ...]
    output: Output
