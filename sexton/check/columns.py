"""Hold listed objects and live entries as Arrow columns, and write findings to a Parquet file for other tools."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.check.model import Finding
from sexton.kernel.errors import BadInput
from sexton.kernel.process import open_file
from sexton.marks.live import LiveEntry, LivePage
from sexton.storage.policy import canonical
from sexton.storage.port import ListedPage

_TEXT = pa.string()
_COMMON = {"vault": _TEXT, "name": _TEXT, "key": _TEXT}
OBJECTS = pa.schema(_COMMON | {"bytes": pa.int64(), "etag": _TEXT, "written": _TEXT})
"""Listed objects. ``name``: the canonical form of the key."""
RECORDS = pa.schema(_COMMON | {"prefix": pa.bool_(), "live": pa.bool_(), "bytes": pa.int64(), "record": _TEXT})
"""Entries of the live side, with their names."""
GROUP_BYTES = 8 << 20
"""Bytes of the rows that are written together: a key of an owner's view may be long."""
PAGE_ROWS = 10_000
FINDINGS = pa.schema(
    {"id": pa.int64()}
    | dict.fromkeys(("instance", "type", "state", "vault", "key"), _TEXT)
    | dict.fromkeys(("expected", "size"), pa.int64())
    | dict.fromkeys(("etag", "record", "detail", "accepted_by"), _TEXT)
    | dict.fromkeys(("first_seen", "confirmed_at"), pa.timestamp("ms", tz="UTC"))
)


def objects(vault: str, page: ListedPage, until: str = "") -> pa.RecordBatch:
    """Return a page of a vault's listing that has objects.

    ``until``: of an inventory: when an object was written that is not judged is left out, so that it counts as young.
    """
    keys, *others = page.columns if isinstance(page, pa.RecordBatch) else map(pa.array, zip(*page, strict=True))
    if until:
        others[-1] = pc.if_else(pc.less_equal(others[-1], until), others[-1], "")
    return _batch([pa.repeat(vault, len(page)), names(keys), keys, *others], OBJECTS)


def records(page: LivePage) -> pa.RecordBatch:
    """Return a page of the live side that has entries."""
    if isinstance(page, pa.RecordBatch):
        vaults, keys, *others = (page[name] for name in LiveEntry._fields)
    else:
        types = (RECORDS.field(name).type for name in LiveEntry._fields)
        vaults, keys, *others = map(pa.array, zip(*page, strict=True), types)
    return _batch([vaults, names(keys), keys, *others], RECORDS)


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)


def names(keys: pa.Array) -> pa.Array:
    """Return the canonical forms of keys. Python sees only keys that are not in this form yet."""
    data = keys.buffers()[2]  # the text of all keys, and perhaps of more
    text = data.to_pybytes() if data else b""
    if text.isascii() and b"%" not in text and b"//" not in text and not pc.any(pc.starts_with(keys, "/")).as_py():
        return keys
    is_odd = pc.match_substring_regex(keys, r"^/|//|%|[^\x00-\x7f]")
    forms = pa.array([canonical(key) for key in keys.filter(is_odd).to_pylist()], keys.type)
    return pc.replace_with_mask(keys, is_odd, forms)


def write_pages(file: str, schema: pa.Schema, pages: Iterable[pa.RecordBatch]) -> None:
    """Write pages to a new Parquet file: if an exception ends them, those before it."""
    options = {"compression": "lz4", "use_dictionary": ["vault", "written"], "write_statistics": False}
    with pq.ParquetWriter(file, schema, **options) as writer:
        group, size = list[pa.RecordBatch](), 0
        try:
            for page in pages:
                group.append(page)
                size += page.nbytes
                if size >= GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(group, schema))
                    group, size = [], 0
        finally:
            writer.write_table(pa.Table.from_batches(group, schema))
    pa.default_memory_pool().release_unused()


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
        with open_file(temporary, "wb") as out, pq.ParquetWriter(out, FINDINGS, compression="zstd") as writer:
            while findings := read(after, PAGE_ROWS):
                after = findings[-1].id
                count += len(findings)
                rows = [finding.model_dump(include=set(FINDINGS.names)) for finding in findings]
                writer.write_table(pa.Table.from_pylist(rows, schema=FINDINGS))
        temporary.replace(file)
    except OSError as e:
        raise BadInput(f"{file} cannot be written: {e.strerror or e}") from e
    finally:
        temporary.unlink(missing_ok=True)
    return count
