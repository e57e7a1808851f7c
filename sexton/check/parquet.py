"""Findings as a Parquet file: what a person takes away and asks with tools of their own."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.check.model import Finding
from sexton.kernel.errors import BadInput

PAGE = 10_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        *((name, pa.string()) for name in ("instance", "type", "state", "vault", "key")),
        ("expected", pa.int64()),
        ("size", pa.int64()),
        *((name, pa.string()) for name in ("etag", "record", "detail", "said_by")),
        *((name, pa.timestamp("ms", tz="UTC")) for name in ("first_seen", "confirmed_at")),
    ]
)


def write(file: Path, after: int, read: Callable[[int, int], Sequence[Finding]]) -> int:
    """Write findings to a file, which is there when it is whole; return how many.

    Args:
        file: where; what was there is replaced.
        after: only those with higher numbers.
        read: returns the next findings after a number, at most so many.

    Raises:
        BadInput: the file cannot be written.
    """
    fresh, number = file.with_name(f".{file.name}.{os.getpid()}"), 0
    try:
        # Opened here: the writer takes some names for those of other file systems.
        with fresh.open("wb") as out, pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
            while found := read(after, PAGE):
                after, number = found[-1].id, number + len(found)
                rows = [f.model_dump(include=set(SCHEMA.names)) for f in found]
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        fresh.replace(file)
    except OSError as e:
        raise BadInput(f"{file} cannot be written: {e.strerror or e}") from e
    finally:
        fresh.unlink(missing_ok=True)
    return number
