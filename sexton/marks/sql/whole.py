"""Find whether an instance was dropped as a whole."""

from sqlalchemy import Connection, exists, select

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.marks.model import InstanceMode
from sexton.marks.whole import WHOLE


def is_dropped(db: Database, c: Connection, instance: str) -> bool:
    """Return whether an instance was dropped, whether it is deleted already or not."""
    t, mark = db.t.instance, db.t.mark
    has_mark = exists().where(mark.c.instance == t.c.id, mark.c.kind == WHOLE.kind, mark.c.id == WHOLE.id)
    row = c.execute(select(t.c.mode, has_mark.label("marked")).where(t.c.id == instance)).one_or_none()
    return row is not None and (row.mode == InstanceMode.DELETED or bool(row.marked))


def is_deleted(db: Database, c: Connection, instance: str) -> bool:
    """Return whether an instance was dropped and nothing of it is left."""
    t = db.t.instance
    return c.execute(select(t.c.mode).where(t.c.id == instance)).scalar_one_or_none() == InstanceMode.DELETED


def refuse_deleted(db: Database, c: Connection, instance: str) -> None:
    """Raise ``BadInput`` for an instance that was dropped and deleted."""
    if is_deleted(db, c, instance):
        raise BadInput(f"instance {instance} was dropped, and nothing of it is left; add another one")
