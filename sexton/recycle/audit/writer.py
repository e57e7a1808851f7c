"""Writes the audit as Parquet files, and removes those that are older than their retention."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from sexton.recycle.audit import naming, parquet
from sexton.recycle.audit.locations import Places
from sexton.recycle.audit.model import AuditRow
from sexton.storage.port import UnknownVault, Vault, VaultFault

FORGET_PAGES = 10
"""Pages of 1,000 old files that one round removes from one place: some seconds; the next round goes on."""


class ParquetAudit:
    """Implements ``audit.port.Audit``. Safe to share between threads."""

    def __init__(self, places: Places, retention_days: int) -> None:
        self._places = places
        self._retention_ms = retention_days * naming.DAY_MS
        self._looked: dict[str, int] = {}

    def write(self, rows: Sequence[AuditRow]) -> None:
        """Store rows, one file for each vault among them; each is tried, though another's place is at fault."""
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
        """Remove files of days that are over for longer than the retention."""
        today = now // naming.DAY_MS
        if self._looked.get(instance) == today:
            return 0
        edge, removed, all_looked = naming.day(max(0, now - self._retention_ms)), 0, True
        for opened in self._places.to_read(instance):
            heartbeat()
            with suppress(VaultFault, UnknownVault):
                gone, whole = _forget(opened(), instance, edge, heartbeat)
                removed += gone
                all_looked = all_looked and whole
        if all_looked:
            self._looked[instance] = today
        return removed


def _forget(vault: Vault, instance: str, edge: str, heartbeat: Callable[[], None]) -> tuple[int, bool]:
    """Remove files of days before ``edge``, the oldest first; return how many, and whether none is left."""
    removed = 0
    for _ in range(FORGET_PAGES):
        # Days are in order in a listing, whatever the store's own order is, so its first page holds the oldest.
        page = next(iter(vault.list_own(naming.folder(instance))), ())
        files = [f for listed in page if (f := naming.parse(listed.key, listed.bytes)) is not None]
        old = [f.name for f in files if f.day < edge]
        if old:
            vault.remove_own(old)
            removed += len(old)
            heartbeat()
        if not old or len(old) < len(files):
            return removed, True
    return removed, False
