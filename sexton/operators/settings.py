"""Store settings as rows. Whether a value is safe is decided by ``config.live``, when it is set and when it is read."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message
from sexton.operators.controls.store import whoami


class StoredSetting(Message):
    """A setting that an operator changed, in all instances (``instance`` is empty) or in one.

    ``value`` is text, as in an environment variable; ``set_at`` is in ms since 1970.
    """

    instance: str
    key: str
    value: str
    set_at: int
    set_by: str = ""
    reason: str = ""


KEY_CHARACTERS = 100
VALUE_CHARACTERS = 100
REASON_CHARACTERS = 500


class SettingStore:
    """The rows of settings. Only Sexton's own role may read or write them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def all(self) -> Sequence[StoredSetting]:
        """Return every row, those of all instances first."""
        t = self._db.t.setting
        with self._db.read() as c:
            return [StoredSetting(**row._mapping) for row in c.execute(select(t).order_by(t.c.instance, t.c.key))]

    def now(self) -> int:
        """Return the database's time, with which ``set_at`` is compared; ms since 1970."""
        with self._db.read() as c:
            return self._db.now(c)

    def put(self, key: str, value: str, instance: str = "", reason: str = "", by: str = "") -> StoredSetting:
        """Store a value that the caller has checked; it replaces the one before.

        Raises:
            BadInput: a text is too long, or cannot be stored.
            UnknownInstance: it is for an unregistered instance.
        """
        check_text(key, value, instance, reason, by)
        for name, text, most in (("key", key, KEY_CHARACTERS), ("value", value, VALUE_CHARACTERS)):
            if not 0 < len(text) <= most:
                raise WrongUsage(f"the {name} of a setting has 1 to {most} characters, this one has {len(text)}")
        t, registered = self._db.t.setting, self._db.t.instance
        with self._db.write() as c:
            found = c.execute(select(registered.c.id).where(registered.c.id == instance)).one_or_none()
            if instance and found is None:
                raise UnknownInstance(instance)
            values = {"value": value, "reason": reason[:REASON_CHARACTERS], "set_by": by or whoami()}
            row = StoredSetting(instance=instance, key=key, set_at=self._db.now(c), **values)
            changes = row.model_dump(exclude={"instance", "key"})
            new_row = upsert(t).values(**row.model_dump())
            c.execute(new_row.on_conflict_do_update(index_elements=["instance", "key"], set_=changes))
        return row

    def remove(self, key: str, instance: str = "") -> bool:
        """Remove a value, so that those of environment and file apply again; return whether it existed."""
        t = self._db.t.setting
        with self._db.write() as c:
            return c.execute(delete(t).where(t.c.instance == instance, t.c.key == key)).rowcount == 1
