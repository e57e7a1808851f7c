"""End protections that are overdue, or finished and passed by the watermark, and delete their rows."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select, true, tuple_

from sexton.database.counters import PROTECTIONS, add_to_counters
from sexton.database.engine import Database
from sexton.protection import policy
from sexton.protection.model import Protection, ProtectionEnd, ProtectionSettings
from sexton.protection.sql.rows import protection, select_protections

log = logging.getLogger(__name__)
FORGOTTEN_AT_ONCE = 20_000
"""Rows of ended protections that one call deletes."""


def list_protections(
    db: Database, c: Connection, instance: str | None, settings: ProtectionSettings
) -> Sequence[Protection]:
    """Return the protections of an instance, or of all, the oldest first, and why the next round ends each."""
    t, i = db.t.protection, db.t.instance
    condition = true() if instance is None else t.c.instance == instance
    now = db.now(c)
    watermarks = {row.id: row.watermark for row in c.execute(select(i.c.id, i.c.watermark))}
    rows = [protection(row) for row in c.execute(select_protections(db).where(condition).order_by(t.c.id))]
    return [p.model_copy(update={"ends": policy.ended(p, now, watermarks.get(p.instance), settings)}) for p in rows]


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
            registered = protection(row)
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


def delete_ended_rows(db: Database) -> int:
    """Delete item rows of one protection that has ended, at most ``FORGOTTEN_AT_ONCE``; return how many.

    The search goes from id to id along the index, so that it does not read the millions of rows of other protections.
    """
    t, item = db.t.protection, db.t.protection_item
    ids = select(func.min(item.c.protection).label("id")).cte("at", recursive=True)
    next_id = select(func.min(item.c.protection)).where(item.c.protection > ids.c.id).scalar_subquery()
    ids = ids.union_all(select(next_id).where(ids.c.id.is_not(None)))
    first_ended = select(ids.c.id).where(ids.c.id.is_not(None), ids.c.id.not_in(select(t.c.id))).limit(1)
    with db.write() as c:
        ended_id = c.execute(first_ended).scalar_one_or_none()
        if ended_id is None:
            return 0
        primary_key = (item.c.instance, item.c.vault, item.c.key, item.c.prefix, item.c.protection)
        rows = select(*primary_key).where(item.c.protection == ended_id).limit(FORGOTTEN_AT_ONCE)
        return c.execute(delete(item).where(tuple_(*primary_key).in_(rows))).rowcount
