"""Store controls as rows, and add those of this process' settings. They work without Temporal."""

import os
import pwd
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.marks.model import InstanceMode
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt, Halted, NotEnabled
from sexton.operators.controls.policy import halt, parse_window, stop_by_instance, vault_whitelist

NAME_CHARACTERS = 200


class ControlStore:
    """Read and change controls; each call reads the database."""

    def __init__(self, db: Database, settings: Sequence[Control] = ()) -> None:
        self._db = db
        self._settings = tuple(settings)

    def put(self, kind: ControlKind, name: str, reason: str = "", by: str = "") -> Control:
        """Store a control; if it exists, store the new reason beside the first one.

        Raises:
            BadInput: the name does not fit the kind, or there is no such vault.
            UnknownInstance: a stop or list names an unregistered instance.
        """
        check_text(name, reason, by)
        if not 0 < len(name) <= NAME_CHARACTERS:
            raise WrongUsage(f"a name has 1 to {NAME_CHARACTERS} characters, this one has {len(name)}")
        t = self._db.t.control
        with self._db.write() as c:
            self._check_name(c, kind, name)
            now, author = self._db.now(c), by or whoami()
            control = Control(kind=kind, name=name, reason=reason, set_by=author, since=now, set_at=now)
            control = control.model_copy(update={"first_reason": reason, "first_set_by": author})
            changes = {"reason": reason, "set_by": author, "set_at": now}  # ``since`` and the first reason stay
            new_row = upsert(t).values(**control.model_dump())
            c.execute(new_row.on_conflict_do_update(index_elements=["kind", "name"], set_=changes))
        return control

    def remove(self, kind: ControlKind, name: str) -> bool:
        """Remove a control; return whether it existed."""
        t = self._db.t.control
        with self._db.write() as c:
            return c.execute(delete(t).where(t.c.kind == kind, t.c.name == name)).rowcount == 1

    def all(self) -> tuple[Control, ...]:
        """Return every control, those of the settings last."""
        with self._db.read() as c:
            return self.all_in(c)

    def all_in(self, c: Connection) -> tuple[Control, ...]:
        """Return every control, in the caller's transaction."""
        t = self._db.t.control
        rows = c.execute(select(t).order_by(t.c.kind, t.c.name))
        return (*(Control(**row._mapping) for row in rows), *self._settings)

    def halt(self, c: Connection, instance: str) -> Halt | None:
        """Return why the instance must not be worked on now, or None, in the caller's transaction."""
        return halt(self.all_in(c), instance, self._db.now(c))

    def stops(self, c: Connection) -> Callable[[str], Halt | None]:
        """Return a function from an instance to its stop, or that of everything, in the caller's transaction."""
        return stop_by_instance(self.all_in(c))

    def admit(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault) if a round may begin, be it only to observe.

        Raises:
            Halted: a stop, a list or a window blocks the instance.
        """
        with self._db.read() as c:
            return self._admit(c, instance)

    def check(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault) if files may be deleted.

        Raises:
            Halted: a stop, a list or a window blocks the instance.
            NotEnabled: the instance is in observe mode.
        """
        with self._db.read() as c:
            return self.check_in(c, instance)

    def check_in(self, c: Connection, instance: str) -> frozenset[str]:
        """Do the same as ``check``, in the caller's transaction."""
        t = self._db.t.instance
        whitelist = self._admit(c, instance)
        if c.execute(select(t.c.mode).where(t.c.id == instance)).scalar_one_or_none() != InstanceMode.ENABLED:
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        return whitelist

    def _admit(self, c: Connection, instance: str) -> frozenset[str]:
        controls = self.all_in(c)
        reason = halt(controls, instance, self._db.now(c))
        if reason is not None:
            raise Halted(reason)
        return vault_whitelist(controls)

    def check_name(self, kind: ControlKind, name: str) -> None:
        """Raise as ``put`` does for a name that no control of the kind can have."""
        with self._db.read() as c:
            self._check_name(c, kind, name)

    def _check_name(self, c: Connection, kind: ControlKind, name: str) -> None:
        t = self._db.t
        if kind is ControlKind.WINDOW:
            parse_window(name)
        elif kind is ControlKind.VAULT_WHITELIST:
            instance, _, vault = name.rpartition("/")
            vaults = select(t.vault.c.name).where(t.vault.c.name == vault)
            if instance:
                vaults = vaults.where(t.vault.c.instance == instance)
            if c.execute(vaults).first() is None:
                raise BadInput(f"there is no vault {name}; see: sexton vault list")
        elif (kind, name) != (ControlKind.STOP, ALL):
            registered = select(t.instance.c.id).where(t.instance.c.id == name)
            if c.execute(registered).one_or_none() is None:
                raise UnknownInstance(name)


def whoami() -> str:
    """Return the operating system's name of this process' user, and who ran sudo, for the call log.

    The user's number decides, not the environment, which its user may set.
    """
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container's user may have no name
        name = f"uid {number}"
    behind = os.environ.get("SUDO_USER", "")
    return f"{name} (sudo by {behind})" if behind and behind != name else name
