"""Store how far an owner has come: its finished protections below this value end."""

from sqlalchemy import and_, func, select, update

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.protection.errors import Invalid


def store_watermark(db: Database, instance: str, value: int) -> None:
    """Store the owner's watermark, which only moves forward. Raise ``UnknownInstance`` or ``Invalid``."""
    t = db.t.instance
    with db.write() as c:
        is_forward = and_(t.c.id == instance, func.coalesce(t.c.watermark, value) <= value)
        values = {"watermark": value, "watermark_at": db.now(c)}
        if c.execute(update(t).where(is_forward).values(**values)).rowcount == 1:
            return
        row = c.execute(select(t.c.watermark).where(t.c.id == instance)).one_or_none()
    if row is None:
        raise UnknownInstance(instance)
    raise Invalid(f"the watermark of {instance} is {row.watermark} already; it cannot move back to {value}")
