"""What a key's own text says where the catalog is the owner: its rowset, its tablet, what is above, what is live."""

from collections.abc import Collection, Iterator

from sqlalchemy import and_, inspect, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.insight.views import Event, Story
from sexton.insight.why.context import Rules
from sexton.marks.model import DueMark, Ref
from sexton.operators.registry.store import Registry
from sexton.owners.catalog import layout
from sexton.owners.catalog.tables import build
from sexton.owners.port import OwnerSilent
from sexton.recycle.planning.policy import CATALOG

OF_ROWSET = ("prepared", "compacted", "dropped")
ABOVE = ("table", "index", "partition")


def marks_of(db: Database, names: Collection[str]) -> dict[str, set[Ref]]:
    """Return, by instance, the marks under which the files of these keys may go, or whose drop will mark them."""
    files = _files(names)
    refs = {Ref(kind, f.rowset) for f in files for kind in OF_ROWSET} | {Ref("tablet", f.tablet) for f in files}
    found = {i: set(refs) for i in (_instances(db) if files else ())}
    t = build(db.dialect).tablets
    with db.read() as c:
        if found and inspect(c).has_table(t.name, t.schema):
            its = and_(t.c.instance.in_(found), in_list(db, t.c.id, {f.tablet for f in files}))
            for instance, *above in c.execute(
                select(t.c.instance, t.c.table_id, t.c.index_id, t.c.partition_id).where(its)
            ):
                found[instance] |= {Ref(kind, i) for kind, i in zip(ABOVE, above, strict=True)}
    return found


def live(db: Database, names: Collection[str], instance: str | None, given: Rules) -> Iterator[Story]:
    """Yield a story for each rowset that a key names and the catalog shows as live."""
    files = _files(names)
    for one in (i for i in (_instances(db) if files else ()) if instance in (None, i)):
        for file in files:
            mark = DueMark(kind="dropped", id=file.rowset, ages_from=0, vault=None, prefix=None, keys=None, bytes=0)
            try:
                if not given.owner.live(one, [mark], lambda: None):
                    continue
                text = f"live: rowset {file.rowset} of tablet {file.tablet}{_below(db, one, file.tablet)}"
                event = Event(event="live", text=text)
            except OwnerSilent as e:
                event = Event(event="owner_silent", text=f"whether it is live nobody can say: {e}")
            yield Story(instance=one, events=(event,))


def named(db: Database, names: Collection[str], instance: str | None) -> Iterator[Story]:
    """Yield a story for each table, index, partition, tablet or rowset of the catalog that has one of these ids."""
    if not (catalogs := [i for i in _instances(db) if instance in (None, i)]):
        return
    t = build(db.dialect)
    with db.read() as c:
        if not inspect(c).has_table(t.tablets.name, t.tablets.schema):
            return
        for kind in (*ABOVE, "tablet", "rowset"):
            table = {"table": t.tables, "index": t.indexes, "partition": t.partitions}.get(kind)
            table = table if table is not None else t.tablets if kind == "tablet" else t.rowsets
            its = and_(table.c.instance.in_(catalogs), in_list(db, table.c.id, names))
            for row in c.execute(select(table).where(its)).mappings():
                state = row.get("state") or ("dropped" if row.get("dropped") else "standing")
                above = (f"{k} {row[f'{k}_id']}" for k in ("tablet", *ABOVE) if row.get(f"{k}_id"))
                text = ", ".join([f"the catalog has a record of it: {state}", *above])
                yield Story(
                    instance=row["instance"], kind=kind, id=row["id"], events=(Event(event="record", text=text),)
                )


def _below(db: Database, instance: str, tablet: str) -> str:
    t = build(db.dialect).tablets
    its = and_(t.c.instance == instance, t.c.id == tablet)
    with db.read() as c:
        row = c.execute(select(t.c.table_id, t.c.index_id, t.c.partition_id).where(its)).one_or_none()
    return "" if row is None else "".join(f", {kind} {i}" for kind, i in zip(ABOVE, row, strict=True))


def _instances(db: Database) -> list[str]:
    return [i.id for i in Registry(db).instances() if i.owner == CATALOG]


def _files(names: Collection[str]) -> list[layout.RowsetFile]:
    return [f for f in map(layout.parse, sorted(names)) if f is not None]
