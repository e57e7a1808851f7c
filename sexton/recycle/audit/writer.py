"""Write the log of deletions as Parquet files, sorted by key, and remove files that are older than their retention.

Its locations are ``_sexton/audit/`` of each vault, or one separate location for all.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.kernel.trust import STRICT, Trust
from sexton.recycle.audit.model import AuditRow, AuditUnreadable, day, file_name, folder, parse, separate_location
from sexton.recycle.model import DAY_MS
from sexton.storage.kinds import open_vault
from sexton.storage.model import VaultSpec
from sexton.storage.port import UnknownVault, Vault, VaultFault, Vaults

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
            if names and not _may_hold(file.metadata.row_group(group), names):
                continue
            for part in file.iter_batches(READ_ROWS, [group], SCHEMA.names):
                if names:
                    values = pa.array(sorted(names))
                    part = part.filter(pc.or_(pc.is_in(part["key"], values), pc.is_in(part["id"], values)))
                columns = [part[field].cast(pa.int64()) if field == "at" else part[field] for field in SCHEMA.names]
                for row in zip(*(column.to_pylist() for column in columns), strict=True):
                    yield AuditRow(*row)
    except (pa.ArrowException, KeyError, OSError) as e:
        raise AuditUnreadable(
            f"file {name} of the log of deletions cannot be read: {e}; move it away to read the others"
        ) from e


def _table(rows: Sequence[AuditRow]) -> pa.Table:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _may_hold(group: pq.RowGroupMetaData, names: Collection[str]) -> bool:
    """Tell whether a row group may hold a name, by the smallest and largest key and id in its statistics."""
    columns = {c.path_in_schema: c.statistics for c in (group.column(n) for n in range(group.num_columns))}
    return any(
        statistics is None or not statistics.has_min_max or any(statistics.min <= n <= statistics.max for n in names)
        for statistics in (columns["key"], columns["id"])
    )


FORGET_PAGES = 10
"""Pages of 1,000 old files that one round removes from one location, in some seconds; the next round continues."""


class AuditLocations:
    """Opens the locations. A vault is proved before use; the separate location holds only the log and has no marker."""

    def __init__(
        self,
        vaults: Vaults,
        registered: Callable[[str], Sequence[VaultSpec]],
        *,
        audit_url: str = "",
        deployment: str = "",
        endpoint_url: str = "",
        trust: Trust = STRICT,
    ) -> None:
        """Create it without opening a location.

        ``registered`` returns the vaults of an instance. ``audit_url``: see ``separate_location``, which raises
        ``BadInput``; empty: each vault holds the log of its own objects. ``endpoint_url``: the settings' S3 endpoint;
        empty for AWS.
        """
        self._vaults, self._registered = vaults, registered
        spec = separate_location(audit_url, deployment)
        self._separate = None if spec is None else open_vault(spec, endpoint_url=endpoint_url, trust=trust)

    def to_write(self, instance: str, vault: str) -> Vault:
        """Return where to write rows about objects of a vault.

        Raises:
            UnknownVault: no such vault is registered.
            VaultFault: the vault's identity is not proved.
        """
        return self._separate or self._vaults.get(instance, vault)

    def to_read(self, instance: str) -> Iterator[Callable[[], Vault]]:
        """Yield a function for each location that may hold rows of an instance; it opens it, raising as ``to_write``.

        With a separate location the vaults are read too: they may hold rows from the time before it was configured.
        """
        separate = self._separate
        if separate is not None:
            yield lambda: separate
        for spec in self._registered(instance):
            yield partial(self._vaults.get, instance, spec.name)


class ParquetAudit:
    """Stores rows of objects that a round tried to delete. Safe to share between threads."""

    def __init__(self, places: AuditLocations, retention_days: int) -> None:
        self._places = places
        self._retention_ms = retention_days * DAY_MS
        self._checked_days: dict[str, int] = {}
        """Instance → the last day, since 1970, on which all its locations were checked for old files."""

    def write(self, rows: Sequence[AuditRow]) -> None:
        """Store the rows of a batch durably, one file for each vault, before their records are removed.

        Writing the same rows again changes nothing.

        Raises:
            VaultFault: a location cannot be written, the first one; every vault is tried. The records stay.
        """
        groups: dict[tuple[str, str, int, int, int], list[AuditRow]] = {}
        for row in rows:
            key = (row.instance, row.vault, row.round, row.batch, row.at // DAY_MS)
            groups.setdefault(key, []).append(row)
        fault: VaultFault | None = None
        for (instance, vault, *_), part in groups.items():
            part.sort(key=lambda r: (r.key, r.kind, r.id, r.seq))
            try:
                self._places.to_write(instance, vault).write_own(file_name(part), encode(part))
            except VaultFault as e:
                fault = fault or e
        if fault is not None:
            raise fault

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = lambda: None) -> int:
        """Remove files of days that ended before the retention began, some at a time; return how many were removed.

        Called once per round, it checks once a day. A location that cannot be reached is checked again the next day.
        ``heartbeat`` is called between pages.
        """
        today = now // DAY_MS
        if self._checked_days.get(instance) == today:
            return 0
        first_kept_day = day(max(0, now - self._retention_ms))
        removed, none_left = 0, True
        for open_location in self._places.to_read(instance):
            heartbeat()
            with suppress(VaultFault, UnknownVault):
                count, is_done = _forget(open_location(), instance, first_kept_day, heartbeat)
                removed += count
                none_left = none_left and is_done
        if none_left:
            self._checked_days[instance] = today
        return removed


def _forget(vault: Vault, instance: str, first_kept_day: str, heartbeat: Callable[[], None]) -> tuple[int, bool]:
    """Remove files of earlier days, the oldest first; return how many, and whether none is left."""
    removed = 0
    for _ in range(FORGET_PAGES):
        # In every store's order days are sorted in a listing, so its first page has the oldest files.
        page = next(iter(vault.list_own(folder(instance))), ())
        files = [file for listed in page if (file := parse(listed.key, listed.bytes)) is not None]
        old = [file.name for file in files if file.day < first_kept_day]
        if old:
            vault.remove_own(old)
            removed += len(old)
            heartbeat()
        if not old or len(old) < len(files):
            return removed, True
    return removed, False
