"""The operations of minidb. What matters is the transaction in which each call of ``contract`` is made."""

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Engine, Row, delete, insert, select, update

from examples.minidb import schema
from examples.minidb.rowsets import (
    MiniDBError,
    Size,
    Written,
    find_table,
    insert_rowset,
    last_version,
    mark_rowsets,
)
from examples.minidb.schema import file, rowset, table
from examples.minidb.vault import Vault, rows
from sexton import contract

TXN_TTL_SECONDS = 3_600
"""No load or compaction takes longer. After it, and the retention, uncommitted prepared files are deleted."""
OUTPUT_SEGMENTS = 8
TABLETS = 4


class Corrupt(MiniDBError):
    """A file differs from what was written."""


class MiniDB:
    """One instance of the database, with its metadata in the SQL database of ``engine`` and its files in ``vaults``."""

    def __init__(self, engine: Engine, instance: str, vaults: Sequence[Vault]) -> None:
        self.engine, self.instance = engine, instance
        self._vaults = {v.name: v for v in vaults}

    def create_schema(self) -> None:
        """Create missing tables and the view."""
        schema.create_schema(self.engine)

    def create_table(self, name: str) -> None:
        """Create an empty table."""
        with self.engine.begin() as c:
            c.execute(insert(table).values(id=uuid.uuid4().hex, instance=self.instance, name=name, dropped=False))

    def load(self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: str = "") -> Size:
        """Write new rowsets and make them visible in one commit; return their size.

        Raises:
            contract.Collected: it took so long that Sexton has begun to delete its files. Load again: the next attempt
                uses new ids and new keys.
        """
        return self.publish(name, self.stage(name, rowsets, files_per_rowset, vault, seed))

    def abandon_load(self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: str = "") -> list[str]:
        """Write rowsets and crash before the commit. Return their keys, which minidb itself no longer knows."""
        return [key for w in self.stage(name, rowsets, files_per_rowset, vault, seed) for key, _ in w.files]

    def stage(self, name: str, rowsets: int, files_per_rowset: int, vault: str, seed: str = "") -> list[Written]:
        """Do the first half of a load: prepare, then write. After a crash Sexton knows which prefixes to clean."""
        with self.engine.connect() as c:
            table_id = find_table(c, self.instance, name).id
        content = [[rows(f"{name}.{seed}.{r}.{s}") for s in range(files_per_rowset)] for r in range(rowsets)]
        return self._write(table_id, vault, content)

    def publish(self, name: str, written: Sequence[Written]) -> Size:
        """Do the second half of a load: one metadata commit shows the rowsets to readers and removes their marks."""
        with self.engine.begin() as c:
            table_id = find_table(c, self.instance, name, lock=True).id
            for version, w in enumerate(written, last_version(c, table_id) + 1):
                insert_rowset(c, table_id, w, version, version)
            # minidb's rows and Sexton's marks change in one commit. If Sexton was faster, this raises, the transaction
            # rolls back, and no reader ever sees a rowset whose files are being deleted.
            contract.commit(c, self.instance, [w.id for w in written])
        return Size(sum(w.size.files for w in written), sum(w.size.bytes for w in written))

    def compact(self, name: str, rowsets: int) -> Size:
        """Merge the oldest rowsets of a table into one with few files; return the size of the inputs, now garbage."""
        with self.engine.connect() as c:
            table_id = find_table(c, self.instance, name).id
            oldest = select(rowset).where(rowset.c.table_id == table_id).order_by(rowset.c.first_version)
            inputs = c.execute(oldest.limit(rowsets)).all()
        if len(inputs) < 2 or len({r.vault for r in inputs}) > 1:
            raise MiniDBError(f"{name} has nothing to compact")
        content = b"".join(self._read(inputs))
        step = -(-len(content) // OUTPUT_SEGMENTS)
        segments = [content[n : n + step] for n in range(0, len(content), step)]
        # The output is prepared like a load: until it is published *it* is the garbage, from then on its inputs are.
        [output] = self._write(table_id, inputs[0].vault, [segments])
        first, last = inputs[0].first_version, inputs[-1].last_version
        ids = [r.id for r in inputs]
        with self.engine.begin() as c:
            find_table(c, self.instance, name, lock=True)
            contract.commit(c, self.instance, [output.id])
            marked = mark_rowsets(c, "compacted", table_id, first, last)
            # Readers that began earlier still read the inputs; their files stay for the retention of ``compacted``.
            # A compaction is never undone, so minidb's rows are deleted at once.
            removed = c.execute(delete(rowset).where(rowset.c.id.in_(ids))).rowcount
            if not marked == removed == len(ids):
                raise MiniDBError(f"another compaction of {name} was faster")
            insert_rowset(c, table_id, output, first, last)
        return Size(sum(r.files for r in inputs), sum(r.bytes for r in inputs))

    def drop_table(self, name: str) -> None:
        """Hide a table and mark all its rowsets, in one commit. ``undrop_table`` works until they are claimed."""
        with self.engine.begin() as c:
            row = find_table(c, self.instance, name, lock=True)
            c.execute(update(table).where(table.c.id == row.id).values(dropped=True))
            mark_rowsets(c, "dropped", row.id, 1, last_version(c, row.id))

    def undrop_table(self, name: str) -> None:
        """Restore a dropped table with all its rowsets.

        Raises:
            contract.Refused: part of it is claimed or deleted already; it stays dropped.
        """
        with self.engine.begin() as c:
            table_id = find_table(c, self.instance, name, dropped=True).id
            ids = c.execute(select(rowset.c.id).where(rowset.c.table_id == table_id)).scalars().all()
            # Before all other writes of this transaction, because it takes the guard, as a claim does. It removes every
            # mark, and no claim can follow; or it raises, and nothing has changed.
            contract.undrop(c, self.instance, "dropped", ids)
            c.execute(update(table).where(table.c.id == table_id).values(dropped=False))

    def read_table(self, name: str) -> Size:
        """Read every file of a table and compare it with what was written.

        A reader works with the metadata it saw when it began, so it must end within the retention of what it reads.

        Raises:
            Corrupt: a file has another content. A missing file raises the store's own error.
        """
        with self.engine.connect() as c:
            table_id = find_table(c, self.instance, name).id
            rowsets = c.execute(select(rowset).where(rowset.c.table_id == table_id)).all()
        sizes = [len(segment) for segment in self._read(rowsets)]
        return Size(len(sizes), sum(sizes))

    def table_id(self, name: str) -> str:
        """Return the id of a table, dropped or not: a hold on this id blocks deletion of all marks of the table."""
        with self.engine.connect() as c:
            query = select(table.c.id).where(table.c.instance == self.instance, table.c.name == name)
            return str(c.execute(query).scalar_one())

    def keys(self, name: str) -> set[tuple[str, str]]:
        """Return (vault, key) of every file in the metadata of a table, dropped or not."""
        return set(self.checksums(name))

    def checksums(self, name: str) -> dict[tuple[str, str], str]:
        """Return (vault, key) → SHA-256 of every file in the metadata of a table, dropped or not."""
        same_table = (table.c.instance == self.instance, table.c.name == name)
        with self.engine.connect() as c:
            query = (
                select(rowset.c.vault, file.c.key, file.c.sha256).join_from(file, rowset).join(table).where(*same_table)
            )
            return {(r.vault, r.key): r.sha256 for r in c.execute(query)}

    def vault(self, name: str) -> Vault:
        """Return the vault of a name."""
        return self._vaults[name]

    def _write(self, table_id: str, vault: str, content: Sequence[Sequence[bytes]]) -> list[Written]:
        """Prepare one rowset for each sequence of segments, then write them."""
        ids = [uuid.uuid4().hex for _ in content]
        prefixes = [f"data/{table_id[:8]}.{n % TABLETS}/{id_}_" for n, id_ in enumerate(ids)]
        # A transaction of its own, committed *before the first PUT*: no file ever exists that no record names. One call
        # registers all of them. If it raises, nothing may be written.
        with self.engine.begin() as c:
            contract.prepare(c, self.instance, f"write-{ids[0]}", ids, vault, prefixes, TXN_TTL_SECONDS)
        written = [
            Written(id_, vault, tuple((f"{prefix}{n:04}.dat", segment) for n, segment in enumerate(segments)))
            for id_, prefix, segments in zip(ids, prefixes, content, strict=True)
        ]
        self._vaults[vault].write(f for w in written for f in w.files)
        return written

    def _read(self, sources: Sequence[Row[Any]]) -> Iterator[bytes]:
        """Yield the verified segments of some rowsets, by version."""
        with self.engine.connect() as c:
            query = select(file, rowset.c.vault).join(rowset).where(rowset.c.id.in_([r.id for r in sources]))
            files = c.execute(query.order_by(rowset.c.first_version, file.c.key)).all()
        for vault, group in groupby(files, key=lambda f: f.vault):
            group_files = list(group)
            for f, segment in zip(group_files, self._vaults[vault].read([f.key for f in group_files]), strict=True):
                if hashlib.sha256(segment).hexdigest() != f.sha256:
                    raise Corrupt(f"{vault}/{f.key} is not what was written")
                yield segment
