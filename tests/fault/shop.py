"""A tiny owner, as docs/integration.md describes one: plain psycopg, its tables in Sexton's own database.

It meets the owner's obligations: ids are never reused, prepare precedes the first write, a mark is in the transaction
that removes the reference, and a refusal rolls everything back. It may die in the middle of any transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg

from sexton import contract
from sexton.marks.model import DueMark, Expansion, Place, Ref
from sexton.owners.sql.owner import SqlOwner

INSTANCE = "shop"
TTL_SECONDS = 7_200
TABLES = """
CREATE TABLE thing (id text COLLATE "C" PRIMARY KEY, above text, vault text, prefix text COLLATE "C", live boolean);
CREATE TABLE file (thing text, vault text, key text COLLATE "C", bytes bigint, PRIMARY KEY (vault, key));
CREATE TABLE shown (thing text, vault text, key text COLLATE "C");
CREATE INDEX thing_by_place ON thing (vault, prefix);
"""
_LIVE_THINGS = "SELECT 'shop' AS instance, 'rowset' AS kind, id, vault, prefix AS key FROM thing WHERE live"
LIVE = {
    "view": f"CREATE VIEW sexton_live AS {_LIVE_THINGS};",
    "copy": f"""
CREATE TABLE sexton_live AS {_LIVE_THINGS};
CREATE TABLE IF NOT EXISTS sexton_live_as_of (as_of timestamptz);
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
    """The owner's connection to the database. After a crash of its process, a new ``Shop`` replaces it."""

    def __init__(self, url: str, folder: Path) -> None:
        """Connect to the database at a URL of psycopg; ``folder`` has the directories of the vaults."""
        self._folder = folder
        self._c = psycopg.connect(url, autocommit=True)

    def execute(self, sql: str) -> None:
        """Execute SQL in a transaction of its own."""
        self._c.execute(sql.encode())

    def make_tables(self) -> None:
        """Create the owner's own tables, once."""
        self.execute(TABLES)

    def create_live_view(self, how: str) -> None:
        """Create the view in which Sexton reads the live things; ``how``: see ``LIVE``."""
        self._c.execute(LIVE[how].encode())

    def drop_live_view(self, how: str) -> None:
        """Drop the view, as a wrong migration does."""
        self._c.execute("DROP TABLE sexton_live" if how == "copy" else "DROP VIEW sexton_live")

    def refresh_copy(self, now: int) -> None:
        """Fill the copy from the owner's tables as they are now (ms since 1970), as its job does."""
        with self._c.transaction():
            self._c.execute("DELETE FROM sexton_live")
            self._c.execute("DELETE FROM sexton_live_as_of")
            self._c.execute(f"INSERT INTO sexton_live {_LIVE_THINGS}")
            self._c.execute("INSERT INTO sexton_live_as_of VALUES (to_timestamp(%s / 1000.0))", (now,))

    def close(self) -> None:
        """Close the connection, which rolls back an open transaction, as the death of a process does."""
        self._c.close()

    def prepare(self, thing: Thing) -> None:
        """Announce a thing before its first file is written."""
        with self._c.transaction():
            contract.prepare(
                self._c, INSTANCE, f"load {thing.id}", [thing.id], thing.vault, [thing.prefix], TTL_SECONDS
            )

    def commit(self, thing: Thing, files: Sequence[tuple[str, int]], inputs: Sequence[str] = ()) -> None:
        """Make a thing visible, and mark its compaction inputs in the same transaction."""
        with self._c.transaction():
            self._c.execute("INSERT INTO thing VALUES (%s, %s, %s, %s, true)", thing)
            places = [(thing.id, thing.vault, key, size) for key, size in files]
            self._c.cursor().executemany("INSERT INTO file VALUES (%s, %s, %s, %s)", places)
            [(first,)] = self._c.execute("SELECT count(*) FROM shown")
            keys = (self._spelled(thing, key, n) for n, (key, _) in enumerate(files, first))
            spelled = [(thing.id, thing.vault, key) for key in keys]
            self._c.cursor().executemany("INSERT INTO shown VALUES (%s, %s, %s)", spelled)
            for id_ in inputs:
                self._c.execute("UPDATE thing SET live = false WHERE id = %s", (id_,))
                contract.mark(self._c, INSTANCE, "compacted", [self._by_keys(id_, None)])
            contract.commit(self._c, INSTANCE, [thing.id])

    def drop(
        self,
        ids: Sequence[str],
        how: str,
        parent: str | None = None,
        more: Sequence[str] = (),
        covered: Sequence[str] = (),
    ) -> None:
        """Drop things: each becomes one mark, by prefix, by keys (with ``more`` keys), or without any files.

        ``covered``: things that are dropped with them, and lie below their prefixes.
        """
        above = None if parent is None else ("dropped", parent)
        with self._c.transaction():
            self._c.execute("UPDATE thing SET live = false WHERE id = ANY (%s)", (list(covered),))
            for id_ in ids:
                self._c.execute("UPDATE thing SET live = false WHERE id = %s", (id_,))
                self._mark("dropped", id_, how, above if id_ != parent else None, more)

    def mark_live_thing(self, id_: str, how: str) -> None:
        """Mark a thing that is still referenced: an owner's mistake."""
        with self._c.transaction():
            self._mark("orphan", id_, how, None, ())

    def undrop(self, ids: Sequence[str], kind: str = "dropped", covered: Sequence[str] = ()) -> None:
        """Undrop all of these things or none, with those that lie below their prefixes and have no marks."""
        with self._c.transaction():
            contract.undrop(self._c, INSTANCE, kind, ids)
            for id_ in (*ids, *covered):
                self._c.execute("UPDATE thing SET live = true WHERE id = %s", (id_,))

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

    def _mark(self, kind: str, id_: str, how: str, above: tuple[str, str] | None, more: Sequence[str]) -> None:
        if how == "prefix":
            self._c.execute(
                "INSERT INTO sexton.mark (instance, kind, id, vault, prefix, parent_kind, parent_id) "
                "SELECT %s, %s, id, vault, prefix, %s, %s FROM thing WHERE id = %s",
                (INSTANCE, kind, *(above or (None, None)), id_),
            )
        elif how == "keys":
            contract.mark(self._c, INSTANCE, kind, [self._by_keys(id_, above, more)])
        else:
            contract.mark(self._c, INSTANCE, kind, [contract.NewMark(id=id_, vault="disk", parent=above)])

    def _by_keys(self, id_: str, above: tuple[str, str] | None, more: Sequence[str] = ()) -> contract.NewMark:
        rows = self._c.execute("SELECT vault, key, bytes FROM file WHERE thing = %s ORDER BY key", (id_,)).fetchall()
        keys = (*(row[1] for row in rows), *more)
        return contract.NewMark(id=id_, vault=rows[0][0], keys=keys, bytes=sum(r[2] for r in rows), parent=above)
