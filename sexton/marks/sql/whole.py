"""Find whether an instance was dropped as a whole, and whether its deletion has ended."""

from sqlalchemy import Connection, Table, select

from sexton.database.engine import Database
from sexton.marks.whole import WHOLE


def is_dropped(db: Database, c: Connection, instance: str) -> bool:
    """Return whether an instance was dropped, whether it is deleted already or not."""
    return _has_whole(c, db.t.mark, instance) or is_deleted(db, c, instance)


def is_deleted(db: Database, c: Connection, instance: str) -> bool:
    """Return whether everything of a dropped instance is deleted."""
    return _has_whole(c, db.t.mark_history, instance)


def _has_whole(c: Connection, t: Table, instance: str) -> bool:
    is_whole = (t.c.instance == instance, t.c.kind == WHOLE.kind, t.c.id == WHOLE.id)
    return c.execute(select(t.c.id).where(*is_whole)).first() is not None
