"""List a bucket from an inventory, which its store wrote before, instead of asking for every page.

An inventory is a folder. Amazon S3 writes a report into ``YYYY-MM-DDTHH-MMZ/`` below it, in Parquet, CSV or ORC:
``manifest.json`` with the files and their checksums, then ``manifest.checksum``. Another folder is one report itself:
Parquet files with the columns ``key``, ``size``, ``etag`` and ``last_modified``.

What a report does not prove is a fault of the vault, so that a check of it is not whole.
"""

import datetime as dt
import hashlib
import re
import tempfile
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, orc, parquet
from pydantic import Field, ValidationError

from sexton.kernel.message import Message
from sexton.storage.model import RESERVED_PREFIX, ReportFile, VaultPart
from sexton.storage.port import BAD_REPLY
from sexton.storage.s3 import listing
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.transport import Transport

OBJECTS = pa.schema({"key": pa.string(), "bytes": pa.int64(), "etag": pa.string(), "written": pa.string()})
"""The columns of a page: those of ``ListedObject``."""
COLUMNS = {"key": "Key", "size": "Size", "etag": "ETag", "lastmodifieddate": "Last modified date"}
"""Column of a report, in small letters and without ``_`` → its name where an inventory is configured."""
PAGE_ROWS = 30_000
CHUNK_BYTES = 1 << 20
_DATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}Z/")


class _File(Message):
    key: str
    md5: str = Field(alias="MD5checksum")


class _Manifest(Message):
    """What Amazon S3 says of a report. ``begun``: in ms since 1970. ``columns``: of CSV, their names."""

    bucket: str = Field(alias="sourceBucket")
    begun: int = Field(alias="creationTimestamp")
    form: str = Field(alias="fileFormat")
    columns: str = Field(alias="fileSchema")
    files: tuple[_File, ...]


def reports(bucket: S3Bucket) -> list[VaultPart]:
    """Return the files of the newest complete report about a vault. ``bucket``: the vault's.

    Raises:
        VaultFault: there is none, or its manifest is not what its checksum says.
    """
    place = _place(bucket)
    dated = [name for name in listing.folders(place, "") or () if _DATED.fullmatch(name)]
    for folder in sorted(dated, reverse=True):
        checksum = place.get(place.full(f"{folder}manifest.checksum"))
        if checksum is not None:  # it is written last
            manifest = place.get(place.full(f"{folder}manifest.json")) or b""
            if hashlib.md5(manifest, usedforsecurity=False).hexdigest() != checksum.decode("ascii", "replace").strip():
                raise bucket.fault(BAD_REPLY, f"manifest.json in {folder} of its inventory has another checksum")
            return _files(bucket, folder, manifest)
    objects = [listed for page in listing.pages(place, "") for listed in page if listed.key.endswith(".parquet")]
    if dated or not objects:
        raise bucket.fault(BAD_REPLY, f"its inventory {bucket.spec.inventory} has no complete report yet")
    written = min(listed.written for listed in objects)
    as_of = int(dt.datetime.fromisoformat(written).replace(tzinfo=dt.UTC).timestamp() * 1000)
    return [VaultPart(report=ReportFile(place.full(o.key), as_of, etag=o.etag)) for o in objects]


def pages(bucket: S3Bucket, file: ReportFile) -> Iterator[pa.RecordBatch]:
    """Yield what a file of a report says of the objects of a vault, without Sexton's own files: pages of ``OBJECTS``.

    A copy of the file is on disk meanwhile: nothing of it counts before its checksum was compared.

    Raises:
        VaultFault: the file is not the one that was listed, or cannot be read.
    """
    with tempfile.NamedTemporaryFile(prefix="sexton-inventory-") as copy:
        checksum = _fetch(_place(bucket), file, copy)
        if file.md5 and checksum != file.md5:
            raise bucket.fault(BAD_REPLY, f"{file.key} of its inventory has another checksum than its manifest says")
        try:
            for rows in _rows(copy.name, file):
                page = _objects(bucket, rows, has_encoded_keys=bool(file.columns))
                if len(page):
                    yield page
        except (pa.ArrowException, OSError, ValueError) as e:
            raise bucket.fault(BAD_REPLY, f"{file.key} of its inventory cannot be read: {e}") from e


def _place(bucket: S3Bucket) -> S3Bucket:
    """Return where the inventory of a vault is; its faults are faults of the vault."""
    name, _, prefix = bucket.spec.inventory.removeprefix("s3://").partition("/")
    where = {"location": name, "prefix": f"{prefix.strip('/')}/" if prefix.strip("/") else "", "inventory": ""}
    return S3Bucket(bucket.spec.model_copy(update=where), bucket.endpoint, bucket.trust)


def _files(bucket: S3Bucket, folder: str, text: bytes) -> list[VaultPart]:
    try:
        manifest = _Manifest.model_validate_json(text)
    except ValidationError as e:
        raise bucket.fault(BAD_REPLY, f"manifest.json in {folder} of its inventory cannot be read: {e}") from e
    if manifest.bucket != bucket.name:
        raise bucket.fault(BAD_REPLY, f"its inventory is of bucket {manifest.bucket}")
    columns = tuple(map(str.strip, manifest.columns.split(","))) if manifest.form == "CSV" else ()
    return [VaultPart(report=ReportFile(f.key, manifest.begun, md5=f.md5, columns=columns)) for f in manifest.files]


def _fetch(place: S3Bucket, file: ReportFile, copy: IO[bytes]) -> str:
    """Copy a file of a report to disk, and return its MD5 checksum."""
    condition: dict[str, Any] = {"IfMatch": file.etag} if file.etag else {}

    def request(via: Transport) -> str:
        copy.seek(0)
        copy.truncate()
        digest = hashlib.md5(usedforsecurity=False)
        for chunk in via.s3.get_object(Bucket=place.name, Key=file.key, **condition)["Body"].iter_chunks(CHUNK_BYTES):
            copy.write(chunk)
            digest.update(chunk)
        copy.flush()
        return digest.hexdigest()

    return place.call_with_retries(request)


def _rows(path: str, file: ReportFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in pages that fit into memory."""
    if file.columns:
        texts = csv.ConvertOptions(column_types=dict.fromkeys(file.columns, pa.string()))
        names = csv.ReadOptions(column_names=file.columns)
        with pa.input_stream(path, compression="gzip" if file.key.endswith(".gz") else None) as text:
            yield from csv.open_csv(text, read_options=names, convert_options=texts)
    elif file.key.endswith(".orc"):
        stripes = orc.ORCFile(path)
        yield from map(stripes.read_stripe, range(stripes.nstripes))
    else:
        with parquet.ParquetFile(path) as rows:
            yield from rows.iter_batches(PAGE_ROWS)


def _objects(bucket: S3Bucket, rows: pa.RecordBatch, *, has_encoded_keys: bool) -> pa.RecordBatch:
    """Return the objects of a vault that rows of a report are about; in CSV keys are encoded as in a URL."""
    columns = {name.lower().replace("_", ""): rows.column(n) for n, name in enumerate(rows.schema.names)}
    columns.setdefault("lastmodifieddate", columns.get("lastmodified"))
    for name, shown in COLUMNS.items():
        if columns.get(name) is None:
            raise bucket.fault(BAD_REPLY, f"its inventory lacks a column: configure it with {shown}")
    keys = columns["key"].cast(pa.string())
    if has_encoded_keys:
        is_encoded = pc.match_substring_regex(keys, "[%+]")
        decoded = [unquote_plus(key, errors="strict") for key in keys.filter(is_encoded).to_pylist()]
        keys = pc.replace_with_mask(keys, is_encoded, pa.array(decoded, keys.type))
    selected = pc.and_(pc.starts_with(keys, bucket.prefix), pc.not_equal(keys, bucket.prefix))
    for name, value in (("islatest", "true"), ("isdeletemarker", "false")):  # of a report of all versions
        if name in columns:
            selected = pc.and_(selected, pc.equal(columns[name].cast(pa.string()), value))
    selected = pc.and_(selected, pc.invert(pc.starts_with(keys, bucket.prefix + RESERVED_PREFIX)))
    keys = pc.utf8_slice_codeunits(keys.filter(selected), len(bucket.prefix))
    if pc.any(pc.match_substring(keys, f"/{RESERVED_PREFIX}")).as_py():
        raise bucket.fault("FOREIGN_MARKER", "its inventory has an object of another vault inside this one")
    _, size, etag, written = (columns[name].filter(selected) for name in COLUMNS)
    if pa.types.is_timestamp(written.type):
        seconds = written.cast(pa.timestamp("s", written.type.tz), safe=False).cast(pa.timestamp("s"))
        written = pc.binary_replace_slice(seconds.cast(pa.string()), len("YYYY-MM-DD"), len("YYYY-MM-DDT"), "T")
    written = pc.utf8_slice_codeunits(written.cast(pa.string()), 0, len("YYYY-MM-DDTHH:MM:SS"))
    etag = pc.utf8_trim(pc.fill_null(etag.cast(pa.string()), ""), '"')
    page = pa.RecordBatch.from_arrays([keys, size.cast(pa.int64()), etag, pc.fill_null(written, "")], schema=OBJECTS)
    if page["bytes"].null_count:
        raise bucket.fault(BAD_REPLY, "its inventory has objects without a size")
    return page
