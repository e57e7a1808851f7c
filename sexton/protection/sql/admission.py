"""Decide whether a job may open a registration, and how much it may protect; end the protections that are due."""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Select, and_, delete, func, or_, select

from sexton.database.counters import PROTECTIONS, add_to_counters
from sexton.database.engine import Database
from sexton.protection import policy
from sexton.protection.errors import Exists, GcIsRunning, MaxCount
from sexton.protection.model import JobUsage, Protection, ProtectionEnd, ProtectionSettings, ProtectionState

log = logging.getLogger(__name__)


def protection_columns(db: Database) -> list[Column[Any]]:
    """Return the columns of a protection without its filter, which may have megabytes."""
    return [column for column in db.t.protection.c if column.name != "filter"]


def select_protections(db: Database) -> Select[Any]:
    """Select protections without their filters."""
    return select(*protection_columns(db))


def ensure_same(registered: Protection, registration: Protection) -> None:
    """Raise ``Exists`` unless the job registers the same again, and has not finished it."""
    job = registered.job
    if registered.state is ProtectionState.SOFT:
        raise Exists(f"job {job} has finished its protection, which still blocks deletion; register under another name")
    if any(getattr(registered, name) != getattr(registration, name) for name in ("digest", "owner", "valid_ts")):
        raise Exists(f"job {job} has a protection of other objects; release it, or use another name")


def ensure_admitted(
    db: Database, c: Connection, registration: Protection, now: int, settings: ProtectionSettings, *, by_job: bool
) -> None:
    """Raise ``GcIsRunning``, ``JobQuotaExceeded`` or ``MaxCount`` where no protection may be opened now.

    At a maximum, protections that are due end first. ``by_job``: its own token registers the job. Its first protection
    is admitted even if the instance has its maximum, so that other jobs cannot use up the place of this one.
    """
    instance, job = registration.instance, registration.job
    if settings.strict_gate:
        lease = db.t.lease
        is_busy = and_(lease.c.instance == instance, lease.c.state == "BUSY", lease.c.expires_at > now)
        if c.execute(select(lease.c.owner).where(is_busy).limit(1)).first() is not None:
            raise GcIsRunning(f"a round of {instance} runs and strict_gate is on; try again when it has ended")
    usage = job_usage(db, c, instance, job)
    if usage.protections >= settings.job_max_protections:
        end_due(db, c, instance, now, settings)
        usage = job_usage(db, c, instance, job)
    policy.check_quota(job, usage._replace(protections=usage.protections + 1), settings)
    if by_job and not usage.protections:  # its first one needs no free place, and ends no other job's
        return
    if _active_count(db, c, instance) >= settings.max_count:
        end_due(db, c, instance, now, settings)
        if (active := _active_count(db, c, instance)) >= settings.max_count:
            raise MaxCount(
                f"{instance} has {active} active protections, sync_protection_max_count allows {settings.max_count}; "
                f"see: sexton protection list {instance}"
            )


def ensure_objects_fit(
    db: Database, c: Connection, registration: Protection, objects: int, settings: ProtectionSettings
) -> None:
    """Raise ``JobQuotaExceeded`` if the job of a registration would protect too many objects with these."""
    usage = job_usage(db, c, registration.instance, registration.job)
    policy.check_quota(registration.job, usage._replace(objects=usage.objects + objects), settings)


def job_usage(db: Database, c: Connection, instance: str, run: str) -> JobUsage:
    """Return what the job of a run uses, with all of its runs."""
    t, job = db.t.protection, policy.job_of(run)
    is_of_job = or_(t.c.job == job, func.substr(t.c.job, 1, len(job) + 1) == f"{job}:")
    sums = [func.coalesce(func.sum(column), 0) for column in (t.c.objects, t.c.bytes)]
    row = c.execute(select(func.count(), *sums).where(t.c.instance == instance, is_of_job)).one()
    return JobUsage(*map(int, row))


def _active_count(db: Database, c: Connection, instance: str) -> int:
    t = db.t.protection
    is_active = and_(t.c.instance == instance, t.c.state != ProtectionState.SOFT)
    return int(c.execute(select(func.count()).select_from(t).where(is_active)).scalar_one())


def end_due(
    db: Database, c: Connection, instance: str, now: int, settings: ProtectionSettings
) -> Mapping[str, ProtectionEnd]:
    """End the protections of an instance that are due; return job → reason.

    Args:
        db: the database.
        c: a connection in a transaction that writes.
        instance: the instance.
        now: ms since 1970.
        settings: the settings of protections.
    """
    t, i = db.t.protection, db.t.instance
    watermark = c.execute(select(i.c.watermark).where(i.c.id == instance)).scalar_one_or_none()

    def ending(query: Select[Any]) -> dict[int, tuple[Protection, ProtectionEnd]]:
        """Return id → (protection, reason) of those that the query selects and that are due."""
        ends: dict[int, tuple[Protection, ProtectionEnd]] = {}
        for row in c.execute(query.where(t.c.instance == instance)).all():
            registered = Protection(**row._mapping)
            reason = policy.ended(registered, now, watermark, settings)
            if reason is not None:
                ends[row.id] = (registered, reason)
        return ends

    candidates = ending(select_protections(db))
    if not candidates:
        return {}
    # A protection that is being renewed, or still receives rows, is locked by that transaction: the next round ends it.
    due = ending(select_protections(db).where(t.c.id.in_(candidates)).with_for_update(skip_locked=True))
    c.execute(delete(t).where(t.c.id.in_(due)))
    for ended, reason in due.values():
        if reason is not ProtectionEnd.PASSED:
            age = (now - ended.registered_at) // 1_000
            log.warning(
                "protection %s of %s, owner %s, ends after %d s: %s", ended.job, instance, ended.owner, age, reason
            )
    reasons = {ended.job: reason for ended, reason in due.values()}
    add_to_counters(db, c, instance, Counter((PROTECTIONS, str(reason)) for reason in reasons.values()))
    return reasons
