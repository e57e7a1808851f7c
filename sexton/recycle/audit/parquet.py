"""Audit rows as Parquet, sorted by key, and back; readable by anything that reads Parquet."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.port import AuditUnreadable

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("ms", tz="UTC")),
        ("instance", pa.string()),
        *((name, pa.int64()) for name in ("round", "batch", "seq")),
        *((name, pa.string()) for name in ("kind", "id", "vault", "key")),
        ("bytes", pa.int64()),
        *((name, pa.string()) for name in ("outcome", "reason")),
    ]
)
GROUP_ROWS = 2_000
"""Rows under one statistic: what a search decodes although it may not hold the key."""
READ_ROWS = 1_000


def encode(rows: Sequence[AuditRow]) -> bytes:
    """Return a file of these rows, which are sorted by key."""
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    pq.write_table(table, sink, compression="zstd", row_group_size=GROUP_ROWS)
    return bytes(sink.getvalue())


def decode(data: bytes, name: str, names: Collection[str] = ()) -> Iterator[AuditRow]:
    """Yield the rows of a file, with ``names`` only those of these keys or mark ids.

    Raises:
        AuditUnreadable: it is no file of the audit.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        for group in range(file.num_row_groups):
            if not names or _may_hold(file.metadata.row_group(group), names):
                for part in file.iter_batches(READ_ROWS, [group], SCHEMA.names):
                    yield from _rows(part, names)
    except (pa.ArrowException, KeyError, OSError) as e:
        raise AuditUnreadable(f"audit file {name} cannot be read: {e}; move it away to read the others") from e


def _rows(part: pa.RecordBatch, names: Collection[str]) -> Iterator[AuditRow]:
    if names:
        wanted = pa.array(sorted(names))
        part = part.filter(pc.or_(pc.is_in(part["key"], wanted), pc.is_in(part["id"], wanted)))
    columns = [part[n].cast(pa.int64()) if n == "at" else part[n] for n in SCHEMA.names]
    for values in zip(*(c.to_pylist() for c in columns), strict=True):
        yield AuditRow(*values)


def _may_hold(group: pq.RowGroupMetaData, names: Collection[str]) -> bool:
    """Return whether a name lies between the smallest and the largest key or id, as far as the file tells them."""
    columns = {c.path_in_schema: c.statistics for c in (group.column(n) for n in range(group.num_columns))}
    for statistics in (columns["key"], columns["id"]):
        if statistics is None or not statistics.has_min_max:
            return True
        if any(statistics.min <= name <= statistics.max for name in names):
            return True
    return False
