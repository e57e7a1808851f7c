"""A tiny owner, as docs/integration.md describes one: plain sqlite3, its tables in Sexton's own file.

It meets the owner's obligations: ids are never reused, prepare precedes the first write, a mark is in the transaction
that removes the reference, and a refusal rolls everything back. It may die in the middle of any transaction.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sexton import contract
from sexton.marks.model import DueMark, Expansion, Place, Ref
from sexton.owners.sql.owner import SqlOwner

INSTANCE = "shop"
TTL_SECONDS = 7_200
TABLES = """
CREATE TABLE thing (id text PRIMARY KEY, above text, vault text, prefix text, live integer);
CREATE TABLE file (thing text, vault text, key text, bytes integer, PRIMARY KEY (vault, key));
CREATE TABLE shown (thing text, vault text, key text);
CREATE INDEX thing_by_place ON thing (vault, prefix);
"""
_LIVE_THINGS = "SELECT 'shop' AS instance, 'rowset' AS kind, id, vault, prefix AS key FROM thing WHERE live"
LIVE = {
    "view": f"CREATE VIEW sexton_live AS {_LIVE_THINGS};",
    "copy": f"""
CREATE TABLE sexton_live AS {_LIVE_THINGS};
CREATE TABLE IF NOT EXISTS sexton_live_as_of (as_of integer);
""",
    "spelled": """
CREATE VIEW sexton_live AS
SELECT 'shop' AS instance, 'rowset' AS kind, thing AS id, vault, key FROM shown
WHERE thing IN (SELECT id FROM thing WHERE live);
""",
}
"""How the shop shows what is live: a view of prefixes, a copy that a job refreshes, or a view of a second table, which
names each object in another spelling."""


class Thing(NamedTuple):
    """A table or a rowset: an id, its table, its vault, and the prefix of its files."""

    id: str
    above: str | None
    vault: str
    prefix: str


class Barrier(SqlOwner):
    """The shop with a fence: from the fence on, it refuses the commit of a prepared thing."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        prepared = {
            m.ref: Expansion(places=(Place(vault=m.vault, prefix=m.prefix),))
            for m in marks
            if m.kind == "prepared" and m.vault is not None
        }
        return {**super().expand(instance, marks, heartbeat), **prepared}


class Shop:
    """The owner's connection to the file. After a crash of its process, a new ``Shop`` replaces it."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._c = sqlite3.connect(path, isolation_level=None)
        contract.attach(self._c)

    def make_tables(self) -> None:
        """Create the owner's own tables, once."""
        self._c.executescript(TABLES)

    def create_live_view(self, how: str) -> None:
        """Create the view in which Sexton reads the live things, and name it; ``how``: see ``LIVE``."""
        self._c.executescript(LIVE[how])
        self._c.execute("UPDATE sexton_instance SET live_view = 'sexton_live' WHERE id = ?", (INSTANCE,))

    def drop_live_view(self, how: str) -> None:
        """Drop the view, as a wrong migration does."""
        self._c.execute(f"DROP {'TABLE' if how == 'copy' else 'VIEW'} sexton_live")

    def refresh_copy(self, now: int) -> None:
        """Fill the copy from the owner's tables as they are now, as its job does."""
        with self._transaction() as c:
            for table in ("sexton_live", "sexton_live_as_of"):
                c.execute(f"DELETE FROM {table}")
            c.execute(f"INSERT INTO sexton_live {_LIVE_THINGS}")
            c.execute("INSERT INTO sexton_live_as_of VALUES (?)", (now,))

    def close(self) -> None:
        """Close the connection, which rolls back an open transaction, as the death of a process does."""
        self._c.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._c.execute("BEGIN IMMEDIATE")
        try:
            yield self._c
        except BaseException:
            self._c.execute("ROLLBACK")
            raise
        self._c.execute("COMMIT")

    def prepare(self, thing: Thing) -> None:
        """Announce a thing before its first file is written."""
        with self._transaction() as c:
            contract.prepare(c, INSTANCE, f"load {thing.id}", [thing.id], thing.vault, [thing.prefix], TTL_SECONDS)

    def commit(self, thing: Thing, files: Sequence[tuple[str, int]], inputs: Sequence[str] = ()) -> None:
        """Make a thing visible, and mark its compaction inputs in the same transaction."""
        with self._transaction() as c:
            c.execute("INSERT INTO thing VALUES (?, ?, ?, ?, 1)", thing)
            c.executemany(
                "INSERT INTO file VALUES (?, ?, ?, ?)", [(thing.id, thing.vault, key, size) for key, size in files]
            )
            first = c.execute("SELECT count(*) FROM shown").fetchone()[0]
            keys = (self._spelled(thing, key, n) for n, (key, _) in enumerate(files, first))
            c.executemany("INSERT INTO shown VALUES (?, ?, ?)", [(thing.id, thing.vault, key) for key in keys])
            for id_ in inputs:
                c.execute("UPDATE thing SET live = 0 WHERE id = ?", (id_,))
                contract.mark(c, INSTANCE, "compacted", [self._by_keys(id_, None)])
            contract.commit(c, INSTANCE, [thing.id])

    def drop(self, ids: Sequence[str], how: str, parent: str | None = None, more: Sequence[str] = ()) -> None:
        """Drop things: each becomes one mark, by prefix, by keys (with ``more`` keys), or without any files."""
        above = None if parent is None else ("dropped", parent)
        with self._transaction() as c:
            for id_ in ids:
                c.execute("UPDATE thing SET live = 0 WHERE id = ?", (id_,))
                self._mark(c, "dropped", id_, how, above if id_ != parent else None, more)

    def mark_live_thing(self, id_: str, how: str) -> None:
        """Mark a thing that is still referenced: an owner's mistake."""
        with self._transaction() as c:
            self._mark(c, "orphan", id_, how, None, ())

    def undrop(self, ids: Sequence[str], kind: str = "dropped") -> None:
        """Undrop all of these things or none."""
        with self._transaction() as c:
            contract.undrop(c, INSTANCE, kind, ids)
            for id_ in ids:
                c.execute("UPDATE thing SET live = 1 WHERE id = ?", (id_,))

    def _spelled(self, thing: Thing, key: str, n: int) -> str:
        """Return a live key in one of the spellings that owners' metadata have."""
        root = f"file://{self._folder / thing.vault}/"
        spellings = (
            key,
            root + key,
            key.replace("/", "//", 1),
            f"%{ord(key[0]):x}{key[1:]}",
            quote(key, safe=""),
            quote(quote(key, safe="")),
            thing.prefix.replace("/", "//", 1),
            root + key.replace("/", "//", 1),
        )
        return spellings[n % len(spellings)]

    def _mark(
        self, c: sqlite3.Connection, kind: str, id_: str, how: str, above: tuple[str, str] | None, more: Sequence[str]
    ) -> None:
        if how == "prefix":
            c.execute(
                "INSERT INTO sexton_mark (instance, kind, id, vault, prefix, parent_kind, parent_id) "
                "SELECT ?, ?, id, vault, prefix, ?, ? FROM thing WHERE id = ?",
                (INSTANCE, kind, *(above or (None, None)), id_),
            )
        elif how == "keys":
            contract.mark(c, INSTANCE, kind, [self._by_keys(id_, above, more)])
        else:
            contract.mark(c, INSTANCE, kind, [contract.NewMark(id=id_, vault="disk", parent=above)])

    def _by_keys(self, id_: str, above: tuple[str, str] | None, more: Sequence[str] = ()) -> contract.NewMark:
        rows = self._c.execute("SELECT vault, key, bytes FROM file WHERE thing = ? ORDER BY key", (id_,)).fetchall()
        keys = (*(row[1] for row in rows), *more)
        return contract.NewMark(id=id_, vault=rows[0][0], keys=keys, bytes=sum(r[2] for r in rows), parent=above)
