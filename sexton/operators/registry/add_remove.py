"""Register a vault; remove a vault or an instance that is no longer needed.

A vault is registered in steps: check it, write its marker, then its row. Repeating the command after a crash completes
it. A removal is refused while marks exist, or rows of a keeper, such as holds. What was deleted, and who asked for it,
stays: the history of marks, plans, rounds, checks, ended holds and calls. So the name of a removed instance is not used
again.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, or_, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.tables import METADATA
from sexton.kernel.errors import BadInput, Conflict
from sexton.kernel.trust import STRICT, Trust
from sexton.marks.model import Reason
from sexton.marks.sql.file_lists import of_instance, read_lists
from sexton.marks.sql.keeper import Keeper, Use
from sexton.marks.sql.rows import refs_in
from sexton.operators.registry.markers import MarkerStore
from sexton.operators.registry.store import Registry
from sexton.storage.kinds import kind_of, open_vault
from sexton.storage.model import Marker, VaultSpec
from sexton.storage.policy import unsupported_options
from sexton.storage.port import Vault, VaultFault


def add_vault(
    registry: Registry,
    spec: VaultSpec,
    deployment: str,
    endpoint_url: str,
    *,
    take_over: bool = False,
    trust: Trust = STRICT,
) -> VaultSpec:
    """Register a place as a vault of this deployment, and return it as registered.

    The marker is written before the row: a row without a marker is a fault, but a marker without a row is found again
    when the command is repeated. A vault that is registered so is returned, and its ``inventory`` is the given one from
    then on; what it lacks since then is reported, never repaired.

    ``take_over``: give the marker of an unregistered vault of this deployment to the new vault. ``trust``: of
    connections to an S3 service.

    Raises:
        BadInput: the vault overlaps another one, its name is taken, the place is another vault already, or its store
            lacks a feature that the vault's options need.
        VaultFault: the place does not exist or cannot be reached.
    """
    spec = kind_of(spec).check(spec).model_copy(update={"deployment": deployment})
    for known in registry.vaults(spec.instance):
        if known.name == spec.name:
            given, has = (one.model_dump(exclude={"uuid", "probe", "inventory"}) for one in (spec, known))
            if other := [f"{n} {has[n]!r}, not {value!r}" for n, value in given.items() if value != has[n]]:
                raise BadInput(f"instance {spec.instance} has a vault {spec.name} already, with {'; '.join(other)}")
            registry.set_inventory(spec.instance, spec.name, spec.inventory)
            return known.model_copy(update={"inventory": spec.inventory})
    registry.check_new_vault(spec, endpoint_url)
    vault = open_vault(spec, endpoint_url=endpoint_url, trust=trust)
    marker = vault.read_marker()
    if marker is not None:
        _check_marker(registry, spec, marker, take_over=take_over)
    place = f"{spec.location}/{spec.prefix}"
    nested = "dropping one would erase the other: use separate prefixes"
    for outer in vault.ancestor_markers():
        raise BadInput(f"{place} lies inside vault {outer.name} of deployment {outer.deployment}; {nested}")
    inner = vault.descendant_marker()
    if inner is not None:
        raise BadInput(f"inside {place} lies another vault ({inner}); {nested}")
    probe = vault.probe()
    missing_feature = unsupported_options(spec, probe)
    if missing_feature:
        raise BadInput(f"{place} cannot be such a vault: {missing_feature}")
    spec = spec.model_copy(update={"uuid": marker.vault_uuid if marker else uuid.uuid4().hex, "probe": probe})
    if marker is None:
        vault.write_marker(Marker(vault_uuid=spec.uuid, deployment=deployment, instance=spec.instance, name=spec.name))
    elif take_over:  # its round stays: proofs refuse a vault in which a round deleted that this database does not know
        vault.replace_marker(marker.model_copy(update={"instance": spec.instance, "name": spec.name}))
    registry.insert_vault(spec, endpoint_url)
    return spec


def _check_marker(registry: Registry, spec: VaultSpec, marker: Marker, *, take_over: bool) -> None:
    """Raise ``BadInput`` if the place already is another vault that must not be taken over."""
    if (marker.deployment, marker.instance, marker.name) == (spec.deployment, spec.instance, spec.name):
        return
    occupied = (
        f"{spec.location}/{spec.prefix} is vault {marker.name} of instance {marker.instance} in deployment "
        f"{marker.deployment}"
    )
    if marker.deployment != spec.deployment:
        raise BadInput(f"{occupied}; two must not delete in one place. Choose another prefix")
    if any(marker.vault_uuid == vault.uuid for vault in registry.vaults()):
        raise BadInput(f"{occupied}, which is registered; two must not delete in one place. Choose another prefix")
    if not take_over:
        raise BadInput(
            f"{occupied}, but this database has no such vault. If no other database of the deployment uses it, add "
            "--take-over; otherwise choose another prefix"
        )


class InUse(Conflict):
    """The instance or vault is needed: Sexton deletes or keeps something because of it."""


def remove_instance(
    db: Database, keepers: Sequence[Keeper], instance: str, forget_records: Callable[[Connection], object]
) -> None:
    """Remove an instance whose vaults are removed, with its grants, settings, journal, binlogs and disabled topics.

    ``forget_records`` removes what its owner keeps of it in this database.

    Raises:
        InUse: it has vaults, marks, enabled topics or what a keeper keeps, or a round or check of it is running.
        UnknownInstance: there is no such instance.
    """
    t = db.t
    running = and_(t.round.c.instance == instance, t.round.c.state == "RUNNING")
    checking = and_(t.check_run.c.instance == instance, t.check_run.c.state == "RUNNING")
    purged = and_(t.wal_topic.c.instance == instance, t.wal_topic.c.enabled)
    uses = (
        Use(t.vault.c.instance == instance, t.vault, "vault", f"sexton vault remove {instance} VAULT"),
        Use(t.mark.c.instance == instance, t.mark, "mark", _marks_end(instance)),
        Use(running, t.round, "running round", f"let it end, or: sexton round cancel {instance}"),
        Use(checking, t.check_run, "running check", f"let it end, or: sexton check cancel {instance}"),
        Use(purged, t.wal_topic, "topic that is purged", "sexton wal disable TOPIC; see: sexton wal list"),
    )
    with deciding(db, instance) as c:
        _refuse_uses(c, keepers, instance, None, uses)
        forget_records(c)
        for table, rows in _rows_of(db, instance):
            c.execute(delete(table).where(rows))


def count_rows(db: Database, instance: str) -> Mapping[str, int]:
    """Return how many rows end with an instance, by table, without those that each instance has."""
    of_each = (db.t.instance, db.t.instance_guard, db.t.counter)
    with db.read() as c:
        counts = {t.name: _count(c, t, rows) for t, rows in _rows_of(db, instance) if t not in of_each}
    return {name: count for name, count in counts.items() if count}


def remove_vault(db: Database, keepers: Sequence[Keeper], vault: Vault, *, gone: bool = False) -> bool:
    """Remove a vault, then its marker; every object stays. Return whether there was a marker of it.

    A marker that stays, because the command was killed, hinders no `vault add` of the same name; another name needs
    ``--take-over``.

    ``gone``: its bucket or directory is gone, so there is no marker to remove. Its marks are quarantined, as those of
    any unknown vault: they can be discarded, and a new vault of this name would free them.

    Raises:
        BadInput: the vault is not gone.
        InUse: marks or a keeper need it.
        VaultFault: the place cannot be reached, a newer copy of this database deletes in it, or the marker cannot be
            removed; then the vault is removed.
    """
    instance, name, t = vault.spec.instance, vault.spec.name, db.t
    is_ours = _has_our_marker(db, vault, gone=gone)
    with deciding(db, instance) as c:
        # Marks that name the vault, or have a stored file in it.
        runs = (run for files in read_lists(db, c, of_instance(db, instance)) for run in files.runs)
        of_vault = or_(t.mark.c.vault == name, refs_in(t.mark, {run.ref for run in runs if run.vault == name}))
        # Only its owner knows where the files of a mark without a vault are.
        may_be_in_it = and_(t.mark.c.instance == instance, or_(of_vault, t.mark.c.vault.is_(None)))
        uses = [] if gone else [Use(may_be_in_it, t.mark, "mark", _marks_end(instance))]
        _refuse_uses(c, keepers, instance, name, uses)
        if gone:
            # Quarantined marks keep their reason: of a changed one nothing may be deleted in a new vault of this name.
            reason = t.mark.c.quarantined_reason
            is_free = or_(reason.is_(None), reason == Reason.DELETE_FAILED)
            values = {"quarantined_reason": Reason.UNKNOWN_VAULT, "last_error": f"vault {name} was removed: it is gone"}
            c.execute(update(t.mark).where(t.mark.c.instance == instance, of_vault, is_free).values(**values))
        c.execute(delete(t.pace_cap).where(t.pace_cap.c.instance == instance, t.pace_cap.c.vault == name))
        c.execute(delete(t.vault).where(t.vault.c.instance == instance, t.vault.c.name == name))
    if is_ours:
        try:
            vault.remove_marker()
        except VaultFault as e:
            raise VaultFault(name, e.reason, f"the vault is removed, but its marker stays: {e.detail}") from e
    return is_ours


def _has_our_marker(db: Database, vault: Vault, *, gone: bool) -> bool:
    """Return whether a place has the marker of this vault; refuse to remove that of a newer copy of the database."""
    spec = vault.spec
    try:
        marker = vault.read_marker()
    except VaultFault:
        if gone:
            return False
        raise
    if marker is None or (marker.vault_uuid, marker.deployment) != (spec.uuid, spec.deployment):
        return False
    if gone:
        raise BadInput(f"vault {spec.name} is not gone: its marker is in {spec.location}/{spec.prefix}; omit --gone")
    if marker.round and not MarkerStore(db).knows(spec.instance, marker):
        raise VaultFault(
            spec.name, "BEHIND", "a newer copy of this database deletes in it: remove the vault there, not here"
        )
    return True


def _marks_end(instance: str) -> str:
    return (
        "let rounds delete them, their owner undrop them, or discard the quarantined ones: sexton quarantine discard; "
        f"see: sexton marks list {instance}"
    )


def _refuse_uses(
    c: Connection, keepers: Sequence[Keeper], instance: str, vault: str | None, own_uses: Iterable[Use]
) -> None:
    """Raise ``InUse``, naming everything that is in the way, and how each ends; ``vault``: None: of the instance."""
    uses = [*own_uses, *(use for keeper in keepers for use in keeper.uses(c, instance, vault))]
    counted = [(_count(c, use.table, use.rows), use) for use in uses]
    in_the_way = [f"{count} {use.noun}{'s' if count > 1 else ''} ({use.way_out})" for count, use in counted if count]
    if in_the_way:
        what = f"instance {instance}" if vault is None else f"vault {vault} of {instance}"
        raise InUse(f"{what} is still needed: it has {'; '.join(in_the_way)}")


def _rows_of(db: Database, instance: str) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Yield the rows that end with an instance, those that depend on others first."""
    t = db.t
    for table in (t.setting, t.counter, t.pace_cap, t.finding, t.wal_topic, t.wal_node):
        yield table, table.c.instance == instance
    for table in reversed(METADATA.sorted_tables):
        if any(key.column is t.instance.c.id for key in table.foreign_keys):
            yield table, table.c.instance == instance
    yield t.instance_guard, t.instance_guard.c.instance == instance
    yield t.instance, t.instance.c.id == instance


def _count(c: Connection, table: Table, rows: ColumnElement[bool]) -> int:
    count: Any = select(func.count()).select_from(table).where(rows)
    return int(c.execute(count).scalar_one())
