"""Write inventories of a bucket, as Amazon S3 does."""

import datetime as dt
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
from mypy_boto3_s3 import S3Client
from pyarrow import csv, orc, parquet

INVENTORY = "inventories/source/daily"
Rows = Mapping[str, Sequence[Any]]


def bucket_rows(client: S3Client, bucket: str, prefix: str = "") -> dict[str, list[Any]]:
    """Return what a report of a bucket says of the objects that it lists now."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    objects = [one for page in pages for one in page.get("Contents", ())]
    return {
        "bucket": [bucket] * len(objects),
        "key": [one["Key"] for one in objects],
        "size": [one["Size"] for one in objects],
        "last_modified_date": [one["LastModified"].replace(tzinfo=None) for one in objects],
        "e_tag": [one["ETag"].strip('"') for one in objects],
    }


def _parquet(rows: Rows) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table(dict(rows)), out)
    return out.getvalue()


def _orc(rows: Rows) -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.table(dict(rows)), out)
    return out.getvalue()


def _csv(rows: Rows) -> bytes:
    texts = dict(rows) | {
        "key": [quote_plus(key, safe="/") for key in rows["key"]],
        "last_modified_date": [
            f"{moment.isoformat(timespec='milliseconds')}Z" for moment in rows["last_modified_date"]
        ],
    }
    out = io.BytesIO()
    csv.write_csv(pa.table(texts), out, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return gzip.compress(out.getvalue())


WRITERS: Mapping[str, tuple[str, Callable[[Rows], bytes]]] = {
    "Parquet": (".parquet", _parquet),
    "ORC": (".orc", _orc),
    "CSV": (".csv.gz", _csv),
}


def write_report(
    client: S3Client,
    bucket: str,
    *files: Rows,
    as_of: dt.datetime,
    form: str = "Parquet",
    of: str = "",
    complete: bool = True,
) -> str:
    """Write a report of ``of``, by default the bucket itself, and return the folder of its manifest.

    ``complete``: its checksum is there, too.
    """
    end, write = WRITERS[form]
    folder, listed = f"{INVENTORY}/{as_of:%Y-%m-%dT%H-%MZ}/", []
    for number, rows in enumerate(files):
        body, key = write(rows), f"{INVENTORY}/data/{as_of:%Y%m%d%H%M}-{number}{end}"
        client.put_object(Bucket=bucket, Key=key, Body=body)
        listed.append({"key": key, "size": len(body), "MD5checksum": hashlib.md5(body).hexdigest()})
    names = {"e_tag": "ETag", "last_modified_date": "LastModifiedDate"}
    schema = ", ".join(names.get(name, name.title().replace("_", "")) for name in files[0]) if files else ""
    manifest = {
        "sourceBucket": of or bucket,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "creationTimestamp": str(round(as_of.timestamp() * 1000)),
        "fileFormat": form,
        "fileSchema": schema if form == "CSV" else "message s3.inventory {}",
        "files": listed,
    }
    text = json.dumps(manifest).encode()
    client.put_object(Bucket=bucket, Key=f"{folder}manifest.json", Body=text)
    if complete:
        client.put_object(Bucket=bucket, Key=f"{folder}manifest.checksum", Body=hashlib.md5(text).hexdigest().encode())
    return folder
