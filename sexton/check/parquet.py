"""Write findings to a Parquet file, for analysis with other tools."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.check.model import Finding
from sexton.kernel.errors import BadInput
from sexton.kernel.process import open_file

PAGE_ROWS = 10_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        *((name, pa.string()) for name in ("instance", "type", "state", "vault", "key")),
        ("expected", pa.int64()),
        ("size", pa.int64()),
        *((name, pa.string()) for name in ("etag", "record", "detail", "accepted_by")),
        *((name, pa.timestamp("ms", tz="UTC")) for name in ("first_seen", "confirmed_at")),
    ]
)


def write(file: Path, after: int, read: Callable[[int, int], Sequence[Finding]]) -> int:
    """Write findings to a file and return how many. The file appears under its name only once it is complete.

    Args:
        file: the file; an existing one is replaced.
        after: only findings with higher ids are written.
        read: returns the next findings after an id, at most as many as its second argument says.

    Raises:
        BadInput: the file cannot be written.
    """
    temporary, count = file.with_name(f".{file.name}.{os.getpid()}"), 0
    try:
        # Opened here: the writer would interpret some names as URLs of other file systems.
        with open_file(temporary, "wb") as out, pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
            while findings := read(after, PAGE_ROWS):
                after = findings[-1].id
                count += len(findings)
                rows = [finding.model_dump(include=set(SCHEMA.names)) for finding in findings]
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        temporary.replace(file)
    except OSError as e:
        raise BadInput(f"{file} cannot be written: {e.strerror or e}") from e
    finally:
        temporary.unlink(missing_ok=True)
    return count
