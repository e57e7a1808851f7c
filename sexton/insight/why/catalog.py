"""Explain files and ids of the reference catalog: the marks that a key's text names, live rowsets, records."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, RowMapping, Table, and_, inspect, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.insight.views import Event, Story
from sexton.insight.why.context import WhyContext
from sexton.marks.model import DueMark, Ref
from sexton.operators.registry.store import Registry
from sexton.owners.catalog import layout
from sexton.owners.catalog.tables import build
from sexton.owners.port import OwnerSilent
from sexton.recycle.planning.policy import CATALOG

ROWSET_KINDS = ("prepared", "compacted", "dropped")
PARENT_KINDS = ("table", "index", "partition")
"""Kinds of what a tablet belongs to."""


def marks_of(db: Database, registry: Registry, names: Collection[str]) -> dict[str, set[Ref]]:
    """Return, by instance, the marks that delete the files with these keys, or whose drop will mark the files."""
    files = _rowset_files(names)
    instances = _catalog_instances(registry) if files else ()
    refs = {Ref(kind, f.rowset) for f in files for kind in ROWSET_KINDS} | {Ref("tablet", f.tablet) for f in files}
    refs_by_instance = {instance: set(refs) for instance in instances}
    t = build(db.dialect).tablets
    with db.read() as c:
        if refs_by_instance and _exists(c, t):
            of_files = and_(t.c.instance.in_(refs_by_instance), in_list(db, t.c.id, {f.tablet for f in files}))
            parents = select(t.c.instance, t.c.table_id, t.c.index_id, t.c.partition_id).where(of_files)
            for instance, *ids in c.execute(parents):
                refs_by_instance[instance] |= {Ref(kind, id_) for kind, id_ in zip(PARENT_KINDS, ids, strict=True)}
    return refs_by_instance


def live(db: Database, names: Collection[str], instance: str | None, context: WhyContext) -> Iterator[Story]:
    """Yield a story for each rowset that a key names and the catalog shows as live."""
    files = _rowset_files(names)
    for catalog_instance in _catalog_instances(context.stores.operators.registry, instance) if files else ():
        for file in files:
            event = _live_event(db, catalog_instance, file, context)
            if event is not None:
                yield Story(instance=catalog_instance, events=(event,))


def recorded(db: Database, registry: Registry, names: Collection[str], instance: str | None) -> Iterator[Story]:
    """Yield a story for each table, index, partition, tablet or rowset of the catalog that has one of these ids."""
    instances = _catalog_instances(registry, instance)
    if not instances:
        return
    t = build(db.dialect)
    tables = (t.tables, t.indexes, t.partitions, t.tablets, t.rowsets)
    with db.read() as c:
        if not _exists(c, t.tablets):
            return
        for kind, table in zip((*PARENT_KINDS, "tablet", "rowset"), tables, strict=True):
            with_id = and_(table.c.instance.in_(instances), in_list(db, table.c.id, names))
            for row in c.execute(select(table).where(with_id)).mappings():
                yield _record_story(kind, row)


def _live_event(db: Database, instance: str, file: layout.RowsetFile, context: WhyContext) -> Event | None:
    """Return that the rowset of a file is live, or that its owner does not answer; None where it is not live."""
    mark = DueMark(kind="dropped", id=file.rowset, retention_starts_at=0, vault=None, prefix=None, keys=None, bytes=0)
    try:
        if not context.owner.live(instance, [mark], lambda: None):
            return None
    except OwnerSilent as e:
        return Event(event="owner_silent", text=f"it is unknown whether this is live: {e}")
    text = f"live: rowset {file.rowset} of tablet {file.tablet}{_parents_text(db, instance, file.tablet)}"
    return Event(event="live", text=text)


def _record_story(kind: str, row: RowMapping) -> Story:
    """Return the story of one record of the catalog: its state and what it belongs to."""
    state = row.get("state") or ("dropped" if row.get("dropped") else "not dropped")
    parents = (f"{parent} {row[f'{parent}_id']}" for parent in ("tablet", *PARENT_KINDS) if row.get(f"{parent}_id"))
    text = ", ".join([f"the catalog has a record of it: {state}", *parents])
    return Story(instance=row["instance"], kind=kind, id=row["id"], events=(Event(event="record", text=text),))


def _parents_text(db: Database, instance: str, tablet: str) -> str:
    """Return the table, index and partition of a tablet as text; empty where the catalog has no such tablet."""
    t = build(db.dialect).tablets
    is_tablet = and_(t.c.instance == instance, t.c.id == tablet)
    with db.read() as c:
        ids = c.execute(select(t.c.table_id, t.c.index_id, t.c.partition_id).where(is_tablet)).one_or_none()
    return "" if ids is None else "".join(f", {kind} {id_}" for kind, id_ in zip(PARENT_KINDS, ids, strict=True))


def _exists(c: Connection, table: Table) -> bool:
    """Return whether the catalog's table is there; a database without a catalog has none."""
    return inspect(c).has_table(table.name, table.schema)


def _catalog_instances(registry: Registry, instance: str | None = None) -> Sequence[str]:
    """Return the instances whose owner is the catalog: all of them, or only the one named if it is among them."""
    return [i.id for i in registry.instances() if i.owner == CATALOG and instance in (None, i.id)]


def _rowset_files(names: Collection[str]) -> list[layout.RowsetFile]:
    return [file for file in map(layout.parse, sorted(names)) if file is not None]
