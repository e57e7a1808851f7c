"""The rows of the log of deletions, the names of its files, and the errors of its readers. Pure.

``audit/INSTANCE/DAY/round-R/batch-B-DIGEST.parquet``: the UTC day of the rows, their round and batch, and a digest of
the objects and their outcomes. So the same rows, written again on that day, replace their file.
"""

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from sexton.kernel.errors import BadInput, Ended, SextonError, WrongUsage
from sexton.recycle.model import DAY_MS
from sexton.storage.kinds import read_place
from sexton.storage.model import VaultSpec
from sexton.storage.policy import check_root

PLACE = "audit_url"
"""The name of the separate location in faults, instead of a vault's name."""

_NAME = re.compile(r"audit/[^/]+/(\d{4}-\d\d-\d\d)/round-(\d+)/batch-(\d+)-[0-9a-f]+\.parquet")


class AuditUnreadable(SextonError):
    """A file of the log of deletions is damaged, or is not a file of the log."""


class AuditEnded(Ended):
    """What a round deleted is no longer in the log of deletions: its retention has ended, or files were removed."""


class AuditRow(NamedTuple):
    """One object, the outcome of its deletion and the reason of a failure, its mark, and the batch and round.

    ``bytes`` is None where the size is unknown; ``at`` is in ms since 1970.
    """

    at: int
    instance: str
    round: int
    batch: int
    seq: int
    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    outcome: str
    reason: str


class AuditFile(NamedTuple):
    """One file of the log of deletions, parsed from its name."""

    name: str
    bytes: int
    day: str
    round: int
    batch: int


def separate_location(audit_url: str, deployment: str) -> VaultSpec | None:
    """Return the separate location that ``audit_url`` names, None where it is empty: each vault holds its own log.

    Two deployments may name the same location; each has a folder of its own in it. The URL is one for ``read_place``,
    with ``%`` encoded in one of a file, or an absolute path.

    Raises:
        BadInput: ``audit_url`` has another form, or is in a folder that is reserved for a vault's own files.
    """
    if not audit_url:
        return None
    url = unquote(audit_url) if audit_url.startswith("file:") else audit_url
    try:
        kind, location, prefix = read_place((f"file://{url}" if url.startswith("/") else url).rstrip("/"))
    except WrongUsage as e:
        raise BadInput(f"audit_url {audit_url!r} names no location: {e}") from e
    folder_of_deployment = f"{prefix}{deployment}/"
    check_root(f"{location.strip('/')}/{folder_of_deployment}")
    return VaultSpec(instance=deployment, name=PLACE, kind=kind, location=location, prefix=folder_of_deployment)


def day(at: int) -> str:
    """Return the UTC day of an instant in ms since 1970."""
    return dt.datetime.fromtimestamp(at / 1000, dt.UTC).date().isoformat()


def days(first: int, last: int) -> Iterator[str]:
    """Yield the UTC days from one instant to another, both of them included."""
    for number in range(first // DAY_MS, last // DAY_MS + 1):
        yield day(number * DAY_MS)


def file_name(rows: Sequence[AuditRow]) -> str:
    """Return the name of the file for rows of one instance, day, round and batch, in their order in the file."""
    first = rows[0]
    text = "\0".join(part for r in rows for part in (r.vault, r.kind, r.id, r.key, r.outcome))
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return f"{round_folder(first.instance, day(first.at), first.round)}batch-{first.batch}-{digest}.parquet"


def folder(instance: str, of_day: str = "") -> str:
    """Return the folder of an instance, or of one of its days."""
    return f"audit/{instance}/{of_day}/" if of_day else f"audit/{instance}/"


def round_folder(instance: str, of_day: str, round_: int) -> str:
    """Return the folder of one round's files of one day."""
    return f"{folder(instance, of_day)}round-{round_}/"


def parse(name: str, size: int) -> AuditFile | None:
    """Parse a file's name; None for a file that is not of the log of deletions."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return AuditFile(name, size, day=match[1], round=int(match[2]), batch=int(match[3]))
