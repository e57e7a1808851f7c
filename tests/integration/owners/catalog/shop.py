"""A database of the reference catalog with vaults; files are written where the catalog's records say."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mypy_boto3_s3 import S3Client
from sqlalchemy import delete, event, func, insert, select, update

from config.settings import owner_policy
from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.model import DueMark, Ref
from sexton.marks.sql.rows import due_columns, due_mark
from sexton.operators.holds.model import Hold
from sexton.operators.registry.store import Registry
from sexton.owners.catalog import model
from sexton.owners.catalog.model import IndexFormat, NewTable, Output, Schema, Written
from sexton.owners.catalog.owner import CatalogOwner
from sexton.owners.catalog.plugin import PLUGIN
from sexton.owners.catalog.store import Catalog
from sexton.owners.catalog.tables import TABLES, create
from sexton.owners.plugin import OwnerContext
from sexton.owners.plugins import add_instance
from sexton.recycle.planning.policy import policy
from tests.support.rig import DAY, GRACE, RETENTION, Rig, listing, put

SUFFIXES = {"table": "", "index": "-i", "partition": "-p"}
"""Kinds that can be dropped → how ``Shop.table`` names them: the table's name with a suffix."""
OWN = {"table": 10_800, "index": 10_800, "partition": 10_800, "tablet": 0, "txn_label": 259_200}
RETAINED = 10_800 + 1
"""Seconds after which dropped objects are due."""
PREPARED = 259_200 + 1
"""Seconds after the end of its transaction at which a prepared rowset is due."""
HOUR = 3_600
FAR_MS = 10**14
"""A cutoff in milliseconds after everything that a test marks."""

SCHEMAS = {
    "none": Schema(),
    "v1": Schema(format=IndexFormat.V1, inverted=("7", "8")),
    "v2": Schema(format=IndexFormat.V2, inverted=("7", "8")),
}


def id_of(kind: str, table: str = "t") -> str:
    """Return the id of a table, or of the index or partition that it has by default."""
    return table + SUFFIXES[kind]


def no_heartbeat() -> None:
    """Do nothing, as a heartbeat."""


@contextmanager
def recorded_statements(shop: "Shop") -> Iterator[list[str]]:
    """Yield a list that collects every SQL statement of the owner."""
    statements: list[str] = []

    def record(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    event.listen(shop.owners.engine, "before_cursor_execute", record)
    yield statements
    event.remove(shop.owners.engine, "before_cursor_execute", record)


class Shop(Rig):
    """One instance ``shop`` of the reference catalog; ``local`` and ``bucket`` add its vaults."""

    def __init__(self, url: str, **more: Any) -> None:
        self.owners = Database.open(url)
        self.catalog_owner = CatalogOwner(OwnerContext(self.owners, Registry(self.owners)))
        super().__init__(url, owner=self.catalog_owner, **more)
        create(self.db)
        self.t = TABLES
        self.catalog = Catalog(self.db, "shop")
        self.retain()
        self.roots: dict[str, Path] = {}
        self.buckets: dict[str, tuple[S3Client, str]] = {}

    def register(self) -> "Shop":
        """Register the instance and enable it; return the shop."""
        add_instance(self.db, self.registry, "shop", "catalog")
        self.registry.enable("shop")
        return self

    def close(self) -> None:
        """Close every connection."""
        self.db.close()
        self.owners.close()

    def local(self, root: Path, name: str = "disk", instance: str = "shop") -> Path:
        self.roots[name] = super().local(root, name, instance)
        return root

    def bucket(self, client: S3Client, bucket: str, name: str = "cold") -> None:
        """Add a vault in a bucket; ``client`` writes and lists without the proxy that the engine uses."""
        self.s3(bucket, name)
        self.buckets[name] = (client, bucket)

    def prove_by_clock(self) -> "Shop":
        """Prove vaults as often as a worker does, for many marks; a rig proves them at nearly every use."""
        self.vaults._clock = time.monotonic
        self.vaults._lookup = cache(self.registry.vault)
        return self

    def put(self, vault: str, key: str) -> None:
        """Write one file of 10 bytes."""
        if vault in self.roots:
            put(self.roots[vault], key)
        else:
            client, bucket = self.buckets[vault]
            client.put_object(Bucket=bucket, Key=key, Body=b"x" * 10)

    @property
    def first_vault(self) -> str:
        """Return the name of the vault that was added first, a local one if there is any."""
        return next(iter((*self.roots, *self.buckets)))

    def objects(self, vault: str = "") -> set[str]:
        """Return the keys of a vault, by default of the first one, listed without Sexton."""
        vault = vault or self.first_vault
        if vault in self.roots:
            return set(listing(self.roots[vault]))
        client, bucket = self.buckets[vault]
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = {o["Key"] for page in pages for o in page.get("Contents", ())}
        return {key for key in keys if not key.startswith("_sexton/")}

    def table(
        self, name: str = "t", tablets: int = 1, *, partitions: Sequence[str] = (), **indexes: Schema
    ) -> list[str]:
        """Create a table (its base index is ``NAME-i``, its partition ``NAME-p``) and return its tablets."""
        parts = partitions or [f"{name}-p"]
        new = NewTable(id=name, indexes=indexes or {f"{name}-i": Schema()}, partitions=dict.fromkeys(parts, tablets))
        self.catalog.create_table(new)
        return self.catalog.tablets(table=name)

    def drop(self, kind: str, table: str = "t", *, later: int = 0) -> None:
        """Drop a table, its index or its partition; then move the clock forward."""
        getattr(self.catalog, f"drop_{kind}")(id_of(kind, table))
        if later:
            self.later(later)

    def undrop(self, kind: str, table: str = "t") -> None:
        """Undrop what ``drop`` has dropped."""
        getattr(self.catalog, f"undrop_{kind}")(id_of(kind, table))

    def filled(self, loads: int = 1, **more: Any) -> tuple[str, list[str]]:
        """Create the table ``t`` with one tablet, and load it so often; return the tablet and the rowsets."""
        [tablet] = self.table()
        return tablet, [self.loaded([tablet], **more)[0] for _ in range(loads)]

    def due_tablet(self) -> str:
        """Return a tablet with a rowset, whose table ``t`` is dropped and due."""
        tablet, _ = self.filled()
        self.drop("table", later=RETAINED)
        return tablet

    def retain(self, **seconds: int) -> None:
        """Let later rounds retain kinds of the catalog for other times."""
        self.policy = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, OWN | seconds)})

    def hold(self, kind: str, id_: str, seconds: int = 7 * DAY) -> int:
        """Place a hold on a mark; return its id."""
        hold = Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="look first")
        return self.holds.place(hold, seconds)[0].id

    def lose(self, table: Any, **where: Any) -> list[dict[str, Any]]:
        """Remove records of a catalog table, by default all, as an accident would; return them."""
        with self.db.write() as c:
            lost = c.execute(delete(table).where(*[table.c[k] == v for k, v in where.items()]).returning(table))
            return [dict(row._mapping) for row in lost]

    def add(self, table: Any, record: Mapping[str, Any]) -> None:
        """Add a record to a catalog table, as a repair would."""
        with self.db.write() as c:
            c.execute(insert(table).values(**record))

    @contextmanager
    def without(self, table: Any) -> Iterator[None]:
        """Make a catalog table unreadable while the context lasts."""
        self.sql(f"ALTER TABLE {table.fullname} RENAME TO away")
        yield
        self.sql(f"ALTER TABLE {table.schema}.away RENAME TO {table.name}")

    def prepared(self, tablets: Sequence[str], vault: str = "disk", *, label: str = "", timeout: int = HOUR) -> str:
        """Begin a load and prepare a rowset for each tablet; return the transaction."""
        txn = self.catalog.begin(label or f"load-{self.number(self.t.txns)}", timeout)
        self.catalog.prepare_rowsets(txn, tablets, vault)
        return txn

    def written(self, tablets: Sequence[str], vault: str = "disk", **more: Any) -> tuple[str, list[str]]:
        """Begin a load, prepare and write a rowset for each tablet; return the transaction and the rowsets."""
        txn = self.catalog.begin(f"load-{self.number(self.t.txns)}", HOUR)
        outputs = self.catalog.prepare_rowsets(txn, tablets, vault)
        self.write(*outputs, **more)
        return txn, [o.rowset for o in outputs]

    def loaded(self, tablets: Sequence[str], vault: str = "disk", **more: Any) -> list[str]:
        """Load a rowset into each tablet, with files; return the rowsets."""
        txn, rowsets = self.written(tablets, vault, **more)
        self.catalog.commit(txn)
        return rowsets

    def compacted(self, tablet: str, inputs: Sequence[str], vault: str = "disk") -> str:
        """Compact rowsets of a tablet; return the output rowset."""
        job = self.catalog.start_compaction(tablet, inputs, vault)
        self.write(job.output)
        self.catalog.finish_compaction(job.id)
        return job.output.rowset

    def write(
        self, *outputs: Output, segments: int = 1, bitmap: bool = False, format: IndexFormat | None = None
    ) -> None:
        """Write the files of rowsets, 10 bytes each, and record them."""
        written = {"segments": segments, "bytes": 10 * segments, "bitmap": bitmap, "format": format}
        self.catalog.write_rowset(*[Written(rowset=o.rowset, **written) for o in outputs])
        vaults = {o.rowset: o.vault for o in outputs}
        files = self.files([o.rowset for o in outputs])
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda f: self.put(*f), [(vaults[r], key) for r, keys in files.items() for key in keys]))

    def keys(self, *rowsets: str) -> list[str]:
        """Return the keys of written rowsets, by the layout and their schemas."""
        return [key for keys in self.files(rowsets).values() for key in keys]

    def files(self, rowsets: Sequence[str]) -> dict[str, list[str]]:
        """Return rowset → keys of its files."""
        r, schemas = self.t.rowsets, self.t.schemas
        same_schema = (schemas.c.index_id == r.c.index_id) & (schemas.c.version == r.c.schema_version)
        columns = (r.c.id, r.c.tablet_id, r.c.segments, r.c.bitmap, r.c.format, schemas.c.inverted)
        query = (
            select(*columns, schemas.c.format.label("schema_format"))
            .join(schemas, same_schema)
            .where(in_list(r.c.id, rowsets))
        )
        with self.db.read() as c:
            return {
                row.id: model.rowset_keys(
                    row.tablet_id,
                    row.id,
                    row.segments,
                    row.bitmap,
                    IndexFormat(row.format or row.schema_format),
                    row.inverted,
                )
                for row in c.execute(query)
            }

    def second_pass(self) -> None:
        """Let the upload grace pass and run a round, which lists deleted prefixes a second time."""
        self.round(after=GRACE + 1)

    def record(self, table: Any, id_: str) -> Any:
        """Return a record of the catalog, None if there is none."""
        with self.db.read() as c:
            return c.execute(select(table).where(table.c.id == id_)).one_or_none()

    def records(self, table: Any) -> Sequence[Any]:
        """Return all records of a catalog table."""
        with self.db.read() as c:
            return c.execute(select(table)).all()

    def change(self, table: Any, id_: str, **values: Any) -> None:
        """Change a record as an accident would."""
        with self.db.write() as c:
            assert c.execute(update(table).where(table.c.id == id_).values(**values)).rowcount == 1

    def number(self, table: Any, **where: Any) -> int:
        """Return the number of records of a catalog table with these values."""
        with self.db.read() as c:
            conditions = [table.c[k] == v for k, v in where.items()]
            return int(c.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

    def states(self, rowsets: Collection[str]) -> set[str]:
        """Return the different states of rowsets."""
        return {self.record(self.t.rowsets, r).state for r in rowsets}

    def expand_all(self) -> None:
        """Let the owner expand every mark, whatever its age."""
        self.catalog_owner.mark_due("shop", dict.fromkeys((*RETENTION, *OWN), FAR_MS), no_heartbeat)

    def marked(self, kind: str) -> list[DueMark]:
        """Return the marks of a kind, by id."""
        mark = self.db.t.mark
        with self.db.read() as c:
            marked = select(*due_columns(mark)).where(mark.c.kind == kind)
            return [due_mark(r) for r in c.execute(marked.order_by(mark.c.id))]

    def refs(self) -> set[Ref]:
        """Return the refs of all marks."""
        mark = self.db.t.mark
        with self.db.read() as c:
            return {Ref(*r) for r in c.execute(select(mark.c.kind, mark.c.id))}

    def fence(self, *ids: str) -> list[DueMark]:
        """Set prepared marks, by default all, to FENCED, as the engine does before it asks; return them."""
        marks = [m for m in self.marked("prepared") if not ids or m.id in ids]
        for mark in marks:
            self.update("mark", {"kind": "prepared", "id": mark.id}, state="FENCED")
        return marks
