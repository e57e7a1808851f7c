"""The operations of minidb. What to look at is which transaction each call of ``contract`` is in."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, delete, func, insert, select, text, update

from examples.minidb import schema
from examples.minidb.schema import file, rowset, table, writing
from examples.minidb.vault import Vault, rows
from sexton import contract

TXN_TTL_SECONDS = 3_600
"""No load or compaction takes longer. After it, and the retention, what it prepared and never committed goes."""
OUTPUT_SEGMENTS = 8
TABLETS = 4


class MiniDBError(Exception):
    """An operation is refused; nothing of it happened."""


class Corrupt(MiniDBError):
    """A file is not what was written."""


class Size(NamedTuple):
    """How much a table holds."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Written:
    """A rowset whose files are in object storage and which no metadata mentions yet."""

    id: str
    files: tuple[tuple[str, bytes], ...]


class MiniDB:
    """One instance of the database, in the SQL database of ``engine``, with its files in ``vaults`` by name."""

    def __init__(self, engine: Engine, instance: str, vaults: Sequence[Vault]) -> None:
        self.engine, self.instance = engine, instance
        self.vaults: Mapping[str, Vault] = {v.name: v for v in vaults}

    def create_schema(self) -> None:
        """Create tables and view where they are missing."""
        schema.create_schema(self.engine)

    def create_table(self, name: str) -> None:
        """Create an empty table."""
        with writing(self.engine) as c:
            c.execute(insert(table).values(id=uuid.uuid4().hex, instance=self.instance, name=name, dropped=False))

    def load(self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: int = 0) -> Size:
        """Write new rowsets and make them visible, all at once.

        Raises:
            contract.Collected: it took so long that Sexton has begun to delete its files. Load again, with new ids.
        """
        return self.publish(name, vault, self.stage(name, rowsets, files_per_rowset, vault, seed))

    def abandon_load(self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: int = 0) -> list[str]:
        """Write rowsets and crash: nothing is ever committed. Return their keys, which minidb itself has forgotten."""
        return [key for w in self.stage(name, rowsets, files_per_rowset, vault, seed) for key, _ in w.files]

    def stage(
        self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: int = 0
    ) -> list[Written]:
        """The first half of a load: prepare, then write. A crash from here on leaves marks that Sexton will follow."""
        with self.engine.connect() as c:
            tablet = self._table(c, name).id[:8]
        content = [[rows(f"{seed}.{r}.{s}") for s in range(files_per_rowset)] for r in range(rowsets)]
        return self._write(tablet, vault, content)

    def _write(self, tablet: str, vault: str, content: Sequence[Sequence[bytes]]) -> list[Written]:
        """Prepare rowset ids, then write their segments."""
        ids = [uuid.uuid4().hex for _ in content]
        prefixes = [f"data/{tablet}-{n % TABLETS}/{id_}_" for n, id_ in enumerate(ids)]
        # A transaction of its own, committed *before the first PUT*: there is no moment in which a file exists that
        # nobody remembers. One call for all rowsets; nothing may be written if it raises.
        with writing(self.engine) as c:
            contract.prepare(c, self.instance, f"write-{ids[0]}", ids, vault, prefixes, TXN_TTL_SECONDS)
        written = [
            Written(id_, tuple((f"{prefix}{n}.dat", segment) for n, segment in enumerate(segments)))
            for id_, prefix, segments in zip(ids, prefixes, content, strict=True)
        ]
        self.vaults[vault].write(f for w in written for f in w.files)
        return written

    def publish(self, name: str, vault: str, written: Sequence[Written]) -> Size:
        """The second half of a load: one metadata commit makes the rowsets visible and takes their marks away."""
        with writing(self.engine) as c:
            target = self._table(c, name, lock=True)
            version = c.execute(select(func.max(rowset.c.last_version)).where(rowset.c.table_id == target.id)).scalar()
            for n, w in enumerate(written, (version or 0) + 1):
                self._insert(c, target.id, vault, w, n, n)
            # Our rows and Sexton's marks change in one commit. When Sexton was faster this raises, everything above
            # rolls back, and no reader ever sees a rowset whose files are being deleted.
            contract.commit(c, self.instance, [w.id for w in written])
        return Size(sum(len(w.files) for w in written), sum(len(s) for w in written for _, s in w.files))

    def compact(self, name: str, rowsets: int) -> Size:
        """Merge the oldest rowsets of a table into one with few files; return the size of the inputs, now garbage."""
        with self.engine.connect() as c:
            target = self._table(c, name)
            found = select(rowset).where(rowset.c.table_id == target.id).order_by(rowset.c.first_version).limit(rowsets)
            inputs = c.execute(found).all()
        content = b"".join(segment for r in inputs for segment in self._read(r))
        step = -(-len(content) // OUTPUT_SEGMENTS)
        segments = [content[n : n + step] for n in range(0, len(content), step)]
        # The output is prepared like a load. Until it is published it is garbage; afterwards the inputs are.
        [output] = self._write(target.id[:8], inputs[0].vault, [segments])
        with writing(self.engine) as c:
            self._table(c, name, lock=True)
            contract.commit(c, self.instance, [output.id])
            between = (inputs[0].first_version, inputs[-1].last_version)
            marked = self._mark(c, "compacted", target.id, *between)
            # Un-reference in the same commit. Readers that began before still read the inputs: the retention of
            # ``compacted`` is the longest such reader, and nobody undoes a compaction, so these rows may go now.
            ids = [r.id for r in inputs]
            if (marked, c.execute(delete(rowset).where(rowset.c.id.in_(ids))).rowcount) != (len(ids), len(ids)):
                raise MiniDBError(f"another compaction of {name} was faster")
            self._insert(c, target.id, inputs[0].vault, output, *between)
        return Size(sum(r.files for r in inputs), sum(r.bytes for r in inputs))

    def drop_table(self, name: str) -> None:
        """Un-reference a table and mark all its rowsets, in one transaction. Until Sexton claims them it can come back.

        The order matters to nobody but readers of this code: both happen at the commit, or neither.
        """
        with writing(self.engine) as c:
            target = self._table(c, name, lock=True)
            c.execute(update(table).where(table.c.id == target.id).values(dropped=True))
            self._mark(c, "dropped", target.id)

    def undrop_table(self, name: str) -> None:
        """Bring a dropped table back, whole.

        Raises:
            contract.Refused: part of it is claimed or gone already; it stays dropped.
        """
        with writing(self.engine) as c:
            target = self._table(c, name, dropped=True)
            ids = c.execute(select(rowset.c.id).where(rowset.c.table_id == target.id)).scalars().all()
            # First of all that this transaction writes (it takes the guard, as a claim does). Either it takes back
            # every mark, and no claim can come any more, or it raises and we touch nothing.
            contract.undrop(c, self.instance, "dropped", ids)
            c.execute(update(table).where(table.c.id == target.id).values(dropped=False))

    def read_table(self, name: str) -> Size:
        """Read every file of a table and compare it with what was written.

        A reader works from the metadata it read at its start, so it must end within the retention of what it reads.

        Raises:
            Corrupt: a file has another content. One that is missing raises the store's own error.
        """
        with self.engine.connect() as c:
            found = c.execute(select(rowset).where(rowset.c.table_id == self._table(c, name).id)).all()
        sizes = [len(segment) for r in found for segment in self._read(r)]
        return Size(len(sizes), sum(sizes))

    def keys(self, name: str) -> set[tuple[str, str]]:
        """Return (vault, key) of every file the metadata knows of a table, dropped or not."""
        ours = (table.c.instance == self.instance, table.c.name == name)
        with self.engine.connect() as c:
            found = select(rowset.c.vault, file.c.key).join_from(file, rowset).join(table).where(*ours)
            return {(r.vault, r.key) for r in c.execute(found)}

    def _read(self, source: Row[Any]) -> list[bytes]:
        """Return the verified segments of a rowset."""
        with self.engine.connect() as c:
            files = c.execute(select(file).where(file.c.rowset_id == source.id).order_by(file.c.key)).all()
        segments = list(self.vaults[source.vault].read([f.key for f in files]))
        for f, segment in zip(files, segments, strict=True):
            if hashlib.sha256(segment).hexdigest() != f.sha256:
                raise Corrupt(f"{source.vault}/{f.key} is not what was written")
        return segments
