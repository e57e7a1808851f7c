"""What a check runs on executors: the data sources ``sexton.objects`` and ``sexton.records``, and a writer of findings.

The first lists vaults, the second reads the live side.

Options are small JSON: vaults and parts, never keys. A part that cannot be read to its end yields one row with an
``error``: a failed job would hide it in a stack trace, and lose the rows of the other parts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sexton.check.model import CheckOrder, Discrepancy
from sexton.check.policy import is_stored, unknown_object
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.kernel.process import search_cycles_rarely
from sexton.marks.live import Part
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.storage.model import ListedObject, VaultPart, VaultSpec
from sexton.storage.policy import canonical
from sexton.storage.port import UNREACHABLE, VaultFault

OBJECTS = pa.schema(
    [
        ("vault", pa.string()),
        ("name", pa.string()),
        ("key", pa.string()),
        ("bytes", pa.int64()),
        ("etag", pa.string()),
        ("written", pa.string()),
        ("part", pa.int32()),
        ("error", pa.string()),
        ("again", pa.bool_()),
    ]
)
RECORDS = pa.schema(
    [
        ("vault", pa.string()),
        ("name", pa.string()),
        ("key", pa.string()),
        ("prefix", pa.bool_()),
        ("live", pa.bool_()),
        ("bytes", pa.int64()),
        ("record", pa.string()),
        ("error", pa.string()),
    ]
)


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
        return from_arrow_schema(OBJECTS)

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
        try:
            for page in vaults.get(instance, part.vault).list_part(part.part):
                if page:
                    # Column by column: no row is made of each object.
                    keys, sizes, etags, written = zip(*page, strict=True)
                    names, empty = [*map(canonical, keys)], [None] * len(page)
                    names_of_vault, numbers = [part.vault] * len(page), [part.number] * len(page)
                    yield _batch(OBJECTS, (names_of_vault, names, keys, sizes, etags, written, numbers, empty, empty))
            vaults.confirm(instance, part.vault)  # the listing of an unmounted disk must not count
        except SextonError as e:
            busy = isinstance(e, VaultFault) and e.reason == UNREACHABLE
            failed = (part.vault, "", "", None, None, None, part.number, str(e)[:500], busy)
            yield _batch(OBJECTS, [[value] for value in failed])


class LiveRecords(DataSource):
    """The live side's entries. Option ``order``: a ``RecordsOrder`` as JSON."""

    @classmethod
    def name(cls) -> str:
        return "sexton.records"

    def schema(self) -> StructType:
        return from_arrow_schema(RECORDS)

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
                for page in stores.live_side.read(order.instance, order.moment, part):
                    if page:
                        vaults, keys, *others = zip(*page, strict=True)
                        columns = (vaults, [*map(canonical, keys)], keys, *others, [None] * len(page))
                        yield _batch(RECORDS, columns)
        except SextonError as e:
            failed = ("", "", "", False, False, None, None, str(e)[:500])
            yield _batch(RECORDS, [[value] for value in failed])
        finally:
            stores.db.close()


def _batch(schema: pa.Schema, columns: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Return columns as one Arrow batch."""
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
        counts: dict[str, int] = {}
        stores = None
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, PAGE_FINDINGS):
                    page: list[Discrepancy] = []
                    for row in batch.slice(start, PAGE_FINDINGS).to_pylist():
                        if "type" not in row:  # no record names the object
                            etag, written = row["etag"] or "", row["written"] or ""
                            listed = ListedObject(row["key"], row["size"], etag, written)
                            finding = unknown_object(self._pattern, row["vault"], listed)
                        else:
                            finding = Discrepancy(**{name: value for name, value in row.items() if value is not None})
                        counts[finding.type] = counts.get(finding.type, 0) + 1
                        if is_stored(finding.type, counts[finding.type]):
                            page.append(finding)
                    if page and stores is None:
                        stores = ConnectionTarget.model_validate_json(self._where).stores()
                    if page and stores is not None:
                        stores.checks.store_findings(order.run, page)
        finally:
            if stores is not None:
                stores.db.close()
        schema = pa.schema([("type", pa.string()), ("number", pa.int64())])
        yield pa.RecordBatch.from_pydict({"type": list(counts), "number": list(counts.values())}, schema)
