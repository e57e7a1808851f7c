"""What a check runs on executors: the data sources ``sexton.objects`` and ``sexton.records``, and a writer of findings.

The first lists vaults, the second reads the live side.

Options are small JSON: vaults and parts, never keys. A part that cannot be read to its end yields one row with an
``error``: a failed job would hide it in a stack trace, and lose the rows of the other parts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sexton.check import columns
from sexton.check.model import CheckOrder
from sexton.check.policy import findings_of, latest_in_inventory
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.kernel.process import search_cycles_rarely
from sexton.marks.live import LiveEntry, Part
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.storage.model import ListedObject, VaultPart, VaultSpec
from sexton.storage.port import UNREACHABLE, VaultFault

ERROR = ("error", pa.string())
LISTED = pa.schema([*columns.OBJECTS, ("part", pa.int32()), ERROR, ("again", pa.bool_())])
READ = pa.schema([*columns.RECORDS, ERROR])


class ListingPart(Message):
    """A part of a vault, by its number in the run."""

    number: int
    vault: str
    part: VaultPart


class ListingOrder(Message):
    """Parts of vaults to list, one for each partition."""

    where: ConnectionTarget
    vaults: tuple[VaultSpec, ...]
    parts: tuple[ListingPart, ...]
    grace_seconds: int


class RecordsOrder(Message):
    """Parts of the live side to read, as of one moment."""

    where: ConnectionTarget
    instance: str
    moment: str
    parts: tuple[tuple[Part, ...], ...]


class NumberedPartition(InputPartition):
    """A partition, by its number in the order."""

    def __init__(self, number: int) -> None:
        self.number = number


class ListedObjects(DataSource):
    """The objects in vaults. Option ``order``: a ``ListingOrder`` as JSON."""

    @classmethod
    def name(cls) -> str:
        return "sexton.objects"

    def schema(self) -> StructType:
        return from_arrow_schema(LISTED)

    def reader(self, schema: StructType) -> "ListedObjectsReader":  # noqa: ARG002  # Spark's interface
        return ListedObjectsReader(self.options["order"])


class ListedObjectsReader(DataSourceReader):
    """Lists on executors; no key passes through the driver."""

    def __init__(self, order: str) -> None:
        self._order = order

    def partitions(self) -> Sequence[NumberedPartition]:
        return [NumberedPartition(n) for n in range(len(ListingOrder.model_validate_json(self._order).parts))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        search_cycles_rarely()
        order = ListingOrder.model_validate_json(self._order)
        assert isinstance(partition, NumberedPartition)
        part = order.parts[partition.number]
        vaults = order.where.vaults(order.vaults)
        instance = order.vaults[0].instance
        until = latest_in_inventory(part.part, order.grace_seconds)
        try:
            for page in filter(len, vaults.get(instance, part.vault).list_part(part.part)):
                yield _batch(LISTED, columns.objects(part.vault, page, until), part=part.number)
            vaults.confirm(instance, part.vault)  # the listing of an unmounted disk must not count
        except SextonError as e:
            busy = isinstance(e, VaultFault) and e.reason == UNREACHABLE
            failed = columns.objects(part.vault, [ListedObject("", 0)])
            yield _batch(LISTED, failed, part=part.number, error=str(e)[:500], again=busy)


class LiveRecords(DataSource):
    """The live side's entries. Option ``order``: a ``RecordsOrder`` as JSON."""

    @classmethod
    def name(cls) -> str:
        return "sexton.records"

    def schema(self) -> StructType:
        return from_arrow_schema(READ)

    def reader(self, schema: StructType) -> "LiveRecordsReader":  # noqa: ARG002  # Spark's interface
        return LiveRecordsReader(self.options["order"])


class LiveRecordsReader(DataSourceReader):
    """Reads by SQL on executors, over one connection for each task."""

    def __init__(self, order: str) -> None:
        self._order = order

    def partitions(self) -> Sequence[NumberedPartition]:
        return [NumberedPartition(n) for n in range(len(RecordsOrder.model_validate_json(self._order).parts))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        search_cycles_rarely()
        order = RecordsOrder.model_validate_json(self._order)
        assert isinstance(partition, NumberedPartition)
        stores = order.where.stores()
        try:
            for part in order.parts[partition.number]:
                for page in filter(len, stores.live_side.read(order.instance, order.moment, part)):
                    yield _batch(READ, columns.records(page))
        except SextonError as e:
            failed = columns.records([LiveEntry("", "", prefix=False, live=False)])
            yield _batch(READ, failed, error=str(e)[:500])
        finally:
            stores.db.close()


def _batch(schema: pa.Schema, page: pa.RecordBatch, **constants: str | int) -> pa.RecordBatch:
    """Return a page with the further columns of a schema, each of one value."""
    more = (pa.repeat(pa.scalar(constants.get(f.name), f.type), len(page)) for f in list(schema)[page.num_columns :])
    return pa.RecordBatch.from_arrays([*page.columns, *more], schema=schema)


PAGE_FINDINGS = 1_000
"""Findings written by one transaction."""


class FindingWriter:
    """Writes findings to the database, on an executor, and returns the number of each type. It may be repeated.

    Each task stores as many as one process would.
    """

    def __init__(self, where: ConnectionTarget, order: CheckOrder, pattern: str) -> None:
        self._where, self._order, self._pattern = where.model_dump_json(), order.model_dump_json(), pattern

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = CheckOrder.model_validate_json(self._order)
        counts = Counter[str]()
        stores = None
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, PAGE_FINDINGS):
                    page = findings_of(batch.slice(start, PAGE_FINDINGS).to_pylist(), self._pattern, counts)
                    if page and stores is None:
                        stores = ConnectionTarget.model_validate_json(self._where).stores()
                    if page and stores is not None:
                        stores.checks.store_findings(order.run, page)
        finally:
            if stores is not None:
                stores.db.close()
        schema = pa.schema([("type", pa.string()), ("number", pa.int64())])
        yield pa.RecordBatch.from_pydict({"type": list(counts), "number": list(counts.values())}, schema)
