"""Store instances and vaults as rows. A vault's row is written after its marker: a row without a marker is a fault."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from sexton.database.engine import Database, first_line
from sexton.database.guard import EVERYTHING, UnknownInstance, deciding
from sexton.database.roles import make_login
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message
from sexton.marks.model import Reason
from sexton.storage.kinds import overlaps
from sexton.storage.model import Probe, VaultSpec
from sexton.storage.port import UnknownVault


class Instance(Message):
    """A database or lake that Sexton cleans. In observe mode, that of a new one, rounds plan and delete nothing."""

    id: str = Field(alias="instance")
    mode: str
    created_at: int
    enabled_at: int | None
    owner: str = "sql"
    """Which of the installed owners answers for its marks; never changed."""
    owner_options: dict[str, str] = Field(default_factory=dict)
    """What that owner needs to know of this instance; never changed."""
    knows_live: bool = False
    """Its owner knows which objects are live, without a view that this instance names."""
    key_pattern: str = ""
    """The regular expression that every key of the owner's files matches; empty: unknown."""
    live_view: str = ""
    """The view that shows its live objects: ``SCHEMA.VIEW``; ``none``; empty: not named yet."""


def names_a_view(instance: Any) -> bool:
    """Return whether an instance, a value or a row, has a live view."""
    return instance.live_view not in ("", NO_VIEW)


def shows_live_objects(instance: Any) -> bool:
    """Return whether the owner of an instance, a value or a row, shows which objects are live."""
    return bool(instance.knows_live) or names_a_view(instance)


def _registered_otherwise(instance: str, registered: Mapping[Any, Any]) -> str:
    may = "may" if registered["underscore_in_ids"] else "may not"
    options = "".join(f" --option {name}={value}" for name, value in sorted(registered["owner_options"].items()))
    return (
        f"instance {instance} is registered with owner {registered['owner']}{options}, and its ids {may} "
        "contain _; choose another name"
    )


class Registry:
    """Instances and vaults as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add_instance(self, instance: str, owner: str = "sql", **traits: Any) -> None:
        """Register an instance in observe mode. A repetition corrects the options of one that nothing has used yet.

        ``traits``: ``underscore_in_ids``: ids may contain ``_``, otherwise prefixes may end with it; ``owner_options``,
        ``knows_live``, ``key_pattern``: as in ``Instance``.

        Raises:
            BadInput: the name is not ``[a-z0-9][a-z0-9_-]{0,62}``, or it is registered otherwise.
        """
        t, values = self._db.t, {"owner": owner, "owner_options": {}, "underscore_in_ids": False, **traits}
        fixed = ("owner", "owner_options", "underscore_in_ids")
        try:
            with self._db.write() as c:
                of_instance = t.instance.c.id == instance
                query = select(*(t.instance.c[name] for name in fixed)).where(of_instance)
                registered = c.execute(query).mappings().one_or_none()
                if registered is None:
                    self._refuse_removed(c, instance)
                    c.execute(insert(t.instance).values(id=instance, **values))
                    c.execute(insert(t.instance_guard).values(instance=instance))
                elif registered["owner_options"] != values["owner_options"]:
                    same = [t.instance.c[name] == values[name] for name in fixed if name != "owner_options"]
                    is_new = (of_instance, *same, t.instance.c.owner_cursor == "", t.instance.c.enabled_at.is_(None))
                    correct = update(t.instance).where(*is_new).values(owner_options=values["owner_options"])
                    if c.execute(correct).rowcount != 1:
                        raise BadInput(_registered_otherwise(instance, registered))
                elif any(registered[name] != values[name] for name in fixed):
                    raise BadInput(_registered_otherwise(instance, registered))
        except IntegrityError as e:
            raise WrongUsage(
                f"instance {instance!r} was refused: use lower-case letters, digits, - and _, at most 63; the first is "
                "a letter or digit"
            ) from e

    def _refuse_removed(self, c: Connection, instance: str) -> None:
        """Refuse the name of an instance that was removed: what is known of that one would be taken for its own."""
        t = self._db.t
        tables = (t.plan, t.round, t.mark_history, t.check_run)
        if any(c.execute(select(1).where(table.c.instance == instance).limit(1)).first() for table in tables):
            raise BadInput(f"an instance {instance} was removed, and its history stays; choose another name")

    def instances(self) -> Sequence[Instance]:
        """Return every instance in the order of their names."""
        t = self._db.t.instance
        with self._db.read() as c:
            rows = c.execute(select(t).order_by(t.c.id))
            return [Instance(**row._mapping) for row in rows]

    def instance(self, name: str) -> Instance:
        """Return one instance, or raise ``UnknownInstance``."""
        with self._db.read() as c:
            row = c.execute(select(self._db.t.instance).where(self._db.t.instance.c.id == name)).one_or_none()
        if row is None:
            raise UnknownInstance(name)
        return Instance(**row._mapping)

    def resolve_instance(self, name: str | None) -> str:
        """Return the name if it is registered; for None, the name of the only instance.

        Raises:
            UnknownInstance: the name is not registered.
            BadInput: the name is None, and there is not exactly one instance.
        """
        if name is not None:
            return self.instance(name).id
        names = [instance.id for instance in self.instances()]
        if not names:
            raise BadInput("no instance is registered; add one: sexton instance add NAME")
        if len(names) != 1:
            raise WrongUsage(f"name an instance, one of: {', '.join(names)}")
        return names[0]

    def enable(self, instance: str) -> None:
        """Permit rounds of this instance to delete."""
        t = self._db.t.instance
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            c.execute(update(t).where(t.c.id == instance, t.c.mode != "enabled").values(mode="enabled", enabled_at=now))

    def observe(self, instance: str) -> None:
        """Restrict rounds of this instance to planning and reporting; claimed marks stay claimed and wait."""
        t = self._db.t.instance
        with deciding(self._db, instance) as c:
            c.execute(update(t).where(t.c.id == instance, t.c.mode == "enabled").values(mode="observe"))

    def set_key_pattern(self, instance: str, pattern: str) -> None:
        """Store the pattern of the keys of the owner's files; empty: unknown, so that no object is an orphan.

        Raises:
            BadInput: the pattern is no regular expression.
            UnknownInstance: the instance is not registered.
        """
        self.instance(instance)
        try:
            re.compile(pattern)
        except re.error as e:
            raise WrongUsage(f"{pattern!r} is no regular expression: {e}") from e
        t = self._db.t.instance
        with self._db.write() as c:
            c.execute(update(t).where(t.c.id == instance).values(key_pattern=pattern))

    def set_live_view(self, instance: str, view: str) -> None:
        """Store which view shows the live objects of an instance; ``none``: it has no live view.

        The view need not exist yet: until it can be read, every mark of the instance is kept. The login that reads it
        is created, and granted the view, if Sexton's login may do so.

        Raises:
            BadInput: this is no name of a view, or the owner knows its live objects itself.
            UnknownInstance: the instance is not registered.
        """
        registered = self.instance(instance)
        if registered.knows_live:
            raise BadInput(f"owner {registered.owner} knows the live objects of {instance}; it needs no view")
        check_view_name(view)
        t = self._db.t.instance
        with deciding(self._db, instance) as c:
            c.execute(update(t).where(t.c.id == instance).values(live_view=view))
        if view != NO_VIEW:
            make_login(self._db, instance, view)

    def vaults(self, instance: str | None = None) -> Sequence[VaultSpec]:
        """Return the vaults of one instance, or of all instances."""
        with self._db.read() as c:
            return self._vaults(c, instance)

    def vault(self, instance: str, name: str) -> VaultSpec:
        """Return one vault, or raise ``UnknownVault``."""
        with self._db.read() as c:
            vaults = self._vaults(c, instance, name)
        if not vaults:
            raise UnknownVault(f"instance {instance} has no vault {name}; register it with: sexton vault add")
        return vaults[0]

    def check_new_vault(self, spec: VaultSpec, endpoint_url: str) -> None:
        """Refuse a vault that overlaps another one, whose name is taken, or whose row the database does not accept.

        Raises:
            UnknownInstance: the instance is not registered.
            BadInput: the vault is refused.
        """
        self.instance(spec.instance)
        with self._db.write() as c:
            trial = c.begin_nested()
            self._insert_vault(c, spec.model_copy(update={"uuid": uuid.uuid4().hex}), endpoint_url)
            trial.rollback()

    def insert_vault(self, spec: VaultSpec, endpoint_url: str) -> None:
        """Store a vault whose marker is written, and release the marks that were quarantined because it was unknown."""
        t = self._db.t
        with deciding(self._db, EVERYTHING, spec.instance) as c:
            if spec.probe is not None:
                spec = spec.model_copy(update={"probe": spec.probe.model_copy(update={"at": self._db.now(c)})})
            self._insert_vault(c, spec, endpoint_url)
            c.execute(
                update(t.mark)
                .where(t.mark.c.instance == spec.instance, or_(t.mark.c.vault == spec.name, t.mark.c.vault.is_(None)))
                .where(t.mark.c.quarantined_reason == Reason.UNKNOWN_VAULT)
                .values(quarantined_reason=None, last_error=None)
            )

    def set_inventory(self, instance: str, name: str, inventory: str) -> None:
        """Store where checks find inventories of a vault; empty: they list it."""
        t = self._db.t.vault
        with self._db.write() as c:
            c.execute(update(t).where(t.c.instance == instance, t.c.name == name).values(inventory=inventory))

    def store_probe(self, instance: str, name: str, probe: Probe) -> None:
        """Store the features that the vault's store has now. Processes that have the vault open open it again."""
        t = self._db.t.vault
        with self._db.write() as c:
            stamped = probe.model_copy(update={"at": self._db.now(c)})
            c.execute(update(t).where(t.c.instance == instance, t.c.name == name).values(probe=stamped.model_dump()))

    def _insert_vault(self, c: Connection, spec: VaultSpec, endpoint_url: str) -> None:
        for other in self._vaults(c, None):
            if (other.instance, other.name) == (spec.instance, spec.name):
                raise BadInput(f"instance {spec.instance} has a vault {spec.name} already; choose another name")
            if overlaps(spec, other, endpoint_url):
                raise BadInput(
                    f"{spec.location}/{spec.prefix} overlaps vault {other.name} of instance {other.instance} "
                    f"({other.location}/{other.prefix}): dropping one would erase the other; use separate prefixes"
                )
        try:
            c.execute(insert(self._db.t.vault).values(**spec.model_dump()))
        except IntegrityError as e:
            raise WrongUsage(
                f"vault {spec.name!r} was refused: its name has lower-case letters, digits, - and _, at most 63, and "
                f"begins with a letter or digit ({first_line(e)})"
            ) from e

    def _vaults(self, c: Connection, instance: str | None, name: str | None = None) -> list[VaultSpec]:
        t = self._db.t.vault
        query: Any = select(t).order_by(t.c.instance, t.c.name)
        if instance is not None:
            query = query.where(t.c.instance == instance)
        if name is not None:
            query = query.where(t.c.name == name)
        fields = VaultSpec.model_fields
        return [VaultSpec(**{n: v for n, v in row._mapping.items() if n in fields}) for row in c.execute(query)]


NO_VIEW = "none"
"""In place of a view's name: an operator has said that the instance has no live view."""
_NAME = "[A-Za-z_][A-Za-z0-9_$]{0,62}"
_VIEW_NAME = re.compile(rf"(?!pg_|information_schema\.|sexton(_[a-z0-9_]+)?\.){_NAME}\.{_NAME}")


def check_view_name(view: str) -> None:
    """Raise ``BadInput`` if a database can have no live view of this name; ``NO_VIEW`` is accepted."""
    if view != NO_VIEW and not _VIEW_NAME.fullmatch(view):
        raise WrongUsage(f"{view!r} is no name of a live view; write SCHEMA.VIEW, in the owner's schema, or {NO_VIEW}")
