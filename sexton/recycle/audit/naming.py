"""Where audit files are and what they are called. Pure.

``audit/INSTANCE/DAY/round-R/batch-B-DIGEST.parquet``: the UTC day of its rows, their round and batch, and a digest of
the objects and their outcomes. So the same rows written again on that day replace themselves.
"""

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from urllib.parse import unquote

from sexton.kernel.errors import BadInput
from sexton.recycle.audit.model import AuditRow
from sexton.storage.model import VaultSpec
from sexton.storage.policy import check_root

DAY_MS = 86_400_000
PLACE = "audit_url"
"""The name of the place elsewhere in faults, where a vault's own name stands otherwise."""

_NAME = re.compile(r"audit/[^/]+/(\d{4}-\d\d-\d\d)/round-(\d+)/batch-(\d+)-[0-9a-f]+\.parquet")


class AuditFile(NamedTuple):
    """One file of the audit, as its name tells."""

    name: str
    bytes: int
    day: str
    round: int
    batch: int


def place(audit_url: str, deployment: str) -> VaultSpec | None:
    """Return the place elsewhere that ``audit_url`` names, None where it is empty: each vault keeps its own audit.

    Two deployments may name the same place; each has a folder of its own in it.

    Args:
        audit_url: ``s3://BUCKET[/PREFIX]``, ``file:///DIR`` or an absolute path.
        deployment: our deployment id.

    Raises:
        BadInput: it is neither, or it leads into a folder that belongs to a vault's own files.
    """
    if not audit_url:
        return None
    kind: Literal["s3", "local"] = "s3"
    prefix = ""
    if audit_url.startswith("s3://"):
        location, _, prefix = audit_url.removeprefix("s3://").partition("/")
        prefix = prefix.strip("/")
    elif audit_url.startswith(("/", "file:///")):
        local = audit_url.startswith("/")
        kind, location = "local", audit_url if local else unquote(audit_url.removeprefix("file://"))
        check_root(location.strip("/") + "/")
    else:
        location = ""
    if not location.strip("/"):
        raise BadInput(f"audit_url {audit_url!r} names no place; use s3://BUCKET/PREFIX, file:///DIR or /DIR")
    inside = f"{prefix}/{deployment}/" if prefix else f"{deployment}/"
    check_root(inside)
    return VaultSpec(instance=deployment, name=PLACE, kind=kind, location=location, prefix=inside)


def day(at: int) -> str:
    """Return the UTC day of an instant."""
    return dt.datetime.fromtimestamp(at / 1000, dt.UTC).date().isoformat()


def days(first: int, last: int) -> Iterator[str]:
    """Yield the UTC days from one instant to another, both of them included."""
    for number in range(first // DAY_MS, last // DAY_MS + 1):
        yield day(number * DAY_MS)


def file_name(rows: Sequence[AuditRow]) -> str:
    """Return the name of the file for rows of one instance, day, round and batch, in the order they are in it."""
    one = rows[0]
    told = "\0".join(part for r in rows for part in (r.vault, r.kind, r.id, r.key, r.outcome))
    digest = hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return f"{round_folder(one.instance, day(one.at), one.round)}batch-{one.batch}-{digest}.parquet"


def folder(instance: str, of: str = "") -> str:
    """Return the folder of an instance, or of one of its days."""
    return f"audit/{instance}/{of}/" if of else f"audit/{instance}/"


def round_folder(instance: str, of: str, round_: int) -> str:
    """Return the folder of one round's files of one day."""
    return f"{folder(instance, of)}round-{round_}/"


def parse(name: str, size: int) -> AuditFile | None:
    """Return what a file's name tells, None for a file that is not the audit's."""
    found = _NAME.fullmatch(name)
    return None if found is None else AuditFile(name, size, found[1], int(found[2]), int(found[3]))
