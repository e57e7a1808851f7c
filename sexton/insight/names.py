"""Read names for shell completion: the first or newest of a kind that begin with a text."""

from collections.abc import Sequence

from sqlalchemy import Column, String, cast, select

from sexton.database.engine import Database, now_once

NUMBERED = ("PLAN", "ROUND", "HOLD")
"""Kinds whose names are numbers; the newest are read."""


def read_names(db: Database, kind: str, begin: str, limit: int) -> Sequence[str]:
    """Return at most ``limit`` names of a kind that begin so; ``kind``: as the help calls it, e.g. ``INSTANCE``."""
    t = db.t
    columns: dict[str, Column[object]] = {
        "INSTANCE": t.instance.c.id,
        "VAULT": t.vault.c.name,
        "TOPIC": t.wal_topic.c.name,
        "TOKEN": t.token.c.id,
        "PLAN": t.plan.c.id,
        "ROUND": t.round.c.id,
        "HOLD": t.hold.c.id,
    }
    column = columns[kind]
    if kind in NUMBERED:
        query = select(column).order_by(column.desc())
        query = query.where(cast(column, String).startswith(begin, autoescape=True)) if begin else query
    else:
        query = select(column).distinct().where(column.startswith(begin, autoescape=True)).order_by(column)
    if kind == "HOLD":
        query = query.where(t.hold.c.released_at.is_(None), t.hold.c.expires_at > now_once())
    if kind == "TOKEN":
        query = query.where(t.token.c.revoked_at.is_(None), t.token.c.expires_at > now_once())
    with db.read() as c:
        return [str(name) for name in c.execute(query.limit(limit)).scalars()]
