"""Write the log of deletions as Parquet files, and remove files that are older than their retention."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from sexton.recycle.audit import naming
from sexton.recycle.audit.locations import AuditLocations
from sexton.recycle.audit.model import AuditRow
from sexton.storage.port import UnknownVault, Vault, VaultFault

FORGET_PAGES = 10
"""Pages of 1,000 old files that one round removes from one location, in some seconds; the next round continues."""


class ParquetAudit:
    """Implements ``port.DeletionLog``. Safe to share between threads."""

    def __init__(self, places: AuditLocations, retention_days: int) -> None:
        self._places = places
        self._retention_ms = retention_days * naming.DAY_MS
        self._checked_days: dict[str, int] = {}
        """Instance → the last day, since 1970, on which all its locations were checked for old files."""

    def write(self, rows: Sequence[AuditRow]) -> None:
        """Store rows, one file for each vault among them; every vault is tried, then the first fault is raised."""
        # Imported here: pyarrow takes 0.2 s, which every process would wait for at its start.
        from sexton.recycle.audit import parquet

        groups: dict[tuple[str, str, int, int, int], list[AuditRow]] = {}
        for row in rows:
            key = (row.instance, row.vault, row.round, row.batch, row.at // naming.DAY_MS)
            groups.setdefault(key, []).append(row)
        fault: VaultFault | None = None
        for (instance, vault, *_), part in groups.items():
            part.sort(key=lambda r: (r.key, r.kind, r.id, r.seq))
            try:
                self._places.to_write(instance, vault).write_own(naming.file_name(part), parquet.encode(part))
            except VaultFault as e:
                fault = fault or e
        if fault is not None:
            raise fault

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = lambda: None) -> int:
        """Remove files of days that ended before the retention began."""
        today = now // naming.DAY_MS
        if self._checked_days.get(instance) == today:
            return 0
        first_kept_day = naming.day(max(0, now - self._retention_ms))
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
        page = next(iter(vault.list_own(naming.folder(instance))), ())
        files = [file for listed in page if (file := naming.parse(listed.key, listed.bytes)) is not None]
        old = [file.name for file in files if file.day < first_kept_day]
        if old:
            vault.remove_own(old)
            removed += len(old)
            heartbeat()
        if not old or len(old) < len(files):
            return removed, True
    return removed, False
