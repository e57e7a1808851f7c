"""Controls as rows, and those that this process' settings add. One statement each; no Temporal needed."""

import getpass
from collections.abc import Sequence

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt
from sexton.operators.controls.policy import halt, parse_window, stopped, vault_whitelist
from sexton.operators.controls.port import Halted, NotEnabled

NAME_CHARACTERS = 200


class ControlStore:
    """Implements ``control.port.Gate``; also what the commands use."""

    def __init__(self, db: Database, settings: Sequence[Control] = ()) -> None:
        self._db = db
        self._settings = tuple(settings)

    def put(self, kind: ControlKind, name: str, reason: str = "", by: str = "") -> Control:
        """Store a control, or its new reason.

        Raises:
            BadInput: the name is not of the kind's form, or no such vault exists.
            UnknownInstance: a stop or list names no registered instance.
        """
        check_text(name, reason, by)
        if not 0 < len(name) <= NAME_CHARACTERS:
            raise BadInput(f"a name has 1 to {NAME_CHARACTERS} characters, this one has {len(name)}")
        t = self._db.t.control
        with self._db.write() as c:
            self._check(c, kind, name)
            made = Control(kind=kind, name=name, reason=reason, set_by=by or whoami(), since=self._db.now(c))
            upsert = (postgresql if self._db.dialect == "postgresql" else sqlite).insert(t).values(**made.model_dump())
            told = {"reason": made.reason, "set_by": made.set_by}  # since when stays
            c.execute(upsert.on_conflict_do_update(index_elements=["kind", "name"], set_=told))
        return made

    def remove(self, kind: ControlKind, name: str) -> bool:
        """Remove a control; return whether it was there."""
        t = self._db.t.control
        with self._db.write() as c:
            return c.execute(delete(t).where(t.c.kind == kind, t.c.name == name)).rowcount == 1

    def all(self) -> tuple[Control, ...]:
        """Return every control, the settings' last."""
        with self._db.read() as c:
            return self.all_in(c)

    def all_in(self, c: Connection) -> tuple[Control, ...]:
        """Return every control as a transaction sees them."""
        t = self._db.t.control
        return (*(Control(**r._mapping) for r in c.execute(select(t).order_by(t.c.kind, t.c.name))), *self._settings)

    def halt(self, c: Connection, instance: str) -> Halt | None:
        """Return why the instance must not be worked on now, as a transaction sees it."""
        return halt(self.all_in(c), instance, self._db.now(c))

    def stopped(self, c: Connection) -> Halt | None:
        """Return why nothing at all may go, what belongs to no instance included, as a transaction sees it."""
        return stopped(self.all_in(c))

    def admit(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault); a round may begin, if only to observe.

        Raises:
            Halted: a stop, a list or a window keeps the instance.
        """
        with self._db.read() as c:
            return self._admit(c, instance)

    def check(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault); files may be deleted.

        Raises:
            Halted: a stop, a list or a window keeps the instance.
            NotEnabled: the instance only observes.
        """
        with self._db.read() as c:
            return self.check_in(c, instance)

    def check_in(self, c: Connection, instance: str) -> frozenset[str]:
        """Do the same as a transaction sees it."""
        t = self._db.t.instance
        whitelist = self._admit(c, instance)
        if c.execute(select(t.c.mode).where(t.c.id == instance)).scalar_one_or_none() != "enabled":
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        return whitelist

    def _admit(self, c: Connection, instance: str) -> frozenset[str]:
        controls = self.all_in(c)
        if (why := halt(controls, instance, self._db.now(c))) is not None:
            raise Halted(why)
        return vault_whitelist(controls)

    def _check(self, c: Connection, kind: ControlKind, name: str) -> None:
        t = self._db.t
        if kind is ControlKind.WINDOW:
            parse_window(name)
        elif kind is ControlKind.VAULT_WHITELIST:
            instance, _, vault = name.rpartition("/")
            named = select(t.vault.c.name).where(t.vault.c.name == vault)
            if instance:
                named = named.where(t.vault.c.instance == instance)
            if c.execute(named).first() is None:
                raise BadInput(f"there is no vault {name}; see: sexton vault list")
        elif (kind, name) != (ControlKind.STOP, ALL):
            registered = select(t.instance.c.id).where(t.instance.c.id == name)
            if c.execute(registered).one_or_none() is None:
                raise UnknownInstance(name)


def whoami() -> str:
    """Return the name of the operator at this machine, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"
