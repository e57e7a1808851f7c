"""Encode rows of the log of deletions as Parquet files, sorted by key, and decode them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.recycle.audit.model import AuditRow, AuditUnreadable

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
"""Rows of one row group: a search skips the groups whose statistics exclude the key."""
READ_ROWS = 1_000


def encode(rows: Sequence[AuditRow]) -> bytes:
    """Return a file with these rows, which are sorted by key."""
    sink = pa.BufferOutputStream()
    pq.write_table(_table(rows), sink, compression="zstd", row_group_size=GROUP_ROWS)
    return bytes(sink.getvalue())


def write(rows: Iterable[AuditRow], file: IO[bytes]) -> int:
    """Write rows in their order as one Parquet file, and return their number; memory holds ``GROUP_ROWS`` of them."""
    remaining, written = iter(rows), 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        while group := list(islice(remaining, GROUP_ROWS)):
            writer.write_table(_table(group))
            written += len(group)
    return written


def decode(data: bytes, name: str, names: Collection[str] = ()) -> Iterator[AuditRow]:
    """Yield the rows of a file, with ``names`` only the rows of these keys or mark ids.

    Raises:
        AuditUnreadable: this is no file of the log of deletions, or it is damaged.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        for group in range(file.num_row_groups):
            if not names or _may_hold(file.metadata.row_group(group), names):
                for part in file.iter_batches(READ_ROWS, [group], SCHEMA.names):
                    yield from _rows(part, names)
    except (pa.ArrowException, KeyError, OSError) as e:
        raise AuditUnreadable(
            f"file {name} of the log of deletions cannot be read: {e}; move it away to read the others"
        ) from e


def _table(rows: Sequence[AuditRow]) -> pa.Table:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _rows(part: pa.RecordBatch, names: Collection[str]) -> Iterator[AuditRow]:
    if names:
        values = pa.array(sorted(names))
        part = part.filter(pc.or_(pc.is_in(part["key"], values), pc.is_in(part["id"], values)))
    columns = [part[name].cast(pa.int64()) if name == "at" else part[name] for name in SCHEMA.names]
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        yield AuditRow(*values)


def _may_hold(group: pq.RowGroupMetaData, names: Collection[str]) -> bool:
    """Tell whether a row group may hold a name, by the smallest and largest key and id in its statistics."""
    columns = {c.path_in_schema: c.statistics for c in (group.column(n) for n in range(group.num_columns))}
    return any(
        statistics is None or not statistics.has_min_max or any(statistics.min <= n <= statistics.max for n in names)
        for statistics in (columns["key"], columns["id"])
    )
