"""Decide whether a job may open a registration."""

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database
from sexton.protection.errors import Exists, GcIsRunning, MaxCount
from sexton.protection.model import Protection, ProtectionSettings, ProtectionState
from sexton.protection.sql.ending import end_due


def ensure_same(registered: Protection, registration: Protection) -> None:
    """Raise ``Exists`` unless the job registers the same again, and has not finished it."""
    job = registered.job
    if registered.state is ProtectionState.SOFT:
        raise Exists(f"job {job} has finished its protection, which still blocks deletion; register under another name")
    if any(getattr(registered, name) != getattr(registration, name) for name in ("digest", "owner", "valid_ts")):
        raise Exists(f"job {job} has a protection of other objects; release it, or use another name")


def ensure_admitted(db: Database, c: Connection, instance: str, now: int, settings: ProtectionSettings) -> None:
    """Raise ``GcIsRunning`` or ``MaxCount`` where no protection may be opened now (ms since 1970).

    At the maximum, protections that are due end first.
    """
    if settings.strict_gate:
        lease = db.t.lease
        is_busy = and_(lease.c.instance == instance, lease.c.state == "BUSY", lease.c.expires_at > now)
        if c.execute(select(lease.c.owner).where(is_busy).limit(1)).first() is not None:
            raise GcIsRunning(f"a round of {instance} runs and strict_gate is on; try again when it has ended")
    if _active_count(db, c, instance) >= settings.max_count:
        end_due(db, c, instance, now, settings)
        if (count := _active_count(db, c, instance)) >= settings.max_count:
            raise MaxCount(
                f"{instance} has {count} active protections, sync_protection_max_count allows {settings.max_count}; "
                f"see: sexton protection list {instance}"
            )


def _active_count(db: Database, c: Connection, instance: str) -> int:
    t = db.t.protection
    is_active = and_(t.c.instance == instance, t.c.state != ProtectionState.SOFT)
    return int(c.execute(select(func.count()).select_from(t).where(is_active)).scalar_one())
