"""Tell the story of a DuckLake twice: cleaned by its own procedure it loses a table, cleaned by Sexton it does not."""

from pathlib import Path

import psycopg

from examples.demo.console import Console, DemoFailed
from examples.demo.duckdb_client import PYTHON, DuckDb, DuckDbError
from examples.demo.ending import Sight
from examples.demo.world import World

FOUR_HOURS = 4 * 3_600
INSTANCE = "ducklake"
"""A second run of the demo goes on with the lake of the first."""


def clean_a_lake(console: Console, world: World, home: Path) -> list[Sight]:
    """Show the part; return rows of the table at the end."""
    console.act("A DuckLake: two tables share a Parquet file, and one of them is dropped")
    if not PYTHON.exists():
        raise DemoFailed("DuckDB is not installed; run: make demo-ducklake")
    suffix = world.instance.rpartition("-")[2]
    own, ours = home / "ducklake" / f"own-{suffix}", home / "ducklake" / "sexton"
    for folder in (own, ours):
        folder.mkdir(parents=True, exist_ok=True)
    url = world.environment["SEXTON_DATABASE_URL"]
    LakeWithoutSexton(console, url, f"lake_{suffix}", own / "data").tell()
    LakeWithSexton(console, world, url, ours / "data", suffix).tell()
    return [Sight("the lake's file", f"sexton why shared-{suffix}.parquet", "ducklake.md")]


class TwoTables:
    """A lake with a file that tables v1 and v2 share, and a table whose files are merged."""

    def __init__(self, console: Console, url: str, schema: str, data: Path, suffix: str = "") -> None:
        """Create the lake, with its catalog in a schema of the database, unless it exists."""
        self.console, self.data, self.suffix = console, data, suffix
        self.data.mkdir(exist_ok=True)
        self.shared = self.data / f"shared{suffix and '-'}{suffix}.parquet"
        with psycopg.connect(url.replace("+psycopg", "")) as c:
            c.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        self.duckdb = DuckDb(url, f"{data}/", schema=schema)

    def table(self, name: str) -> str:
        """Return the name of a table of this run."""
        return f"{name}_{self.suffix}" if self.suffix else name

    def run(self, *statements: str) -> None:
        """Run statements."""
        for statement in statements:
            try:
                self.duckdb.sql(statement)
            except DuckDbError as e:
                raise DemoFailed(f"DuckDB refused {statement}: {e}") from e

    def load(self) -> None:
        """Create the tables."""
        self.run(
            "CALL lake.set_option('data_inlining_row_limit', 0)", f"COPY (FROM range(1000) t(a)) TO '{self.shared}'"
        )
        for name in ("v1", "v2"):
            table = self.table(name)
            self.run(f"CREATE TABLE {table}(a BIGINT)")
            self.run(f"CALL ducklake_add_data_files('lake', '{table}', '{self.shared}')")
        self.run(f"CREATE TABLE {self.table('t')}(a BIGINT)", *[f"INSERT INTO {self.table('t')} FROM range(1000)"] * 3)

    def drop(self) -> None:
        """Merge the files of one table, drop another, and let the snapshots expire that needed the old files."""
        self.run("CALL ducklake_merge_adjacent_files('lake')", f"DROP TABLE {self.table('v1')}")
        self.run("CALL ducklake_expire_snapshots('lake', older_than => now())")

    def count(self, name: str, snapshot: int | None = None) -> int | str:
        """Return how many rows are read from a table's files, or why they cannot be; ``snapshot``: None: the newest."""
        at = "" if snapshot is None else f" AT (VERSION => {snapshot})"
        try:  # the catalog alone would answer count(*)
            return int(self.duckdb.sql(f"SELECT len(list(a)) FROM {self.table(name)}{at}")[0][0])
        except DuckDbError as e:
            return str(e).splitlines()[0]

    def listed(self) -> set[str]:
        """Return the files that the lake itself lists for its tables."""
        tables = self.duckdb.sql("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'")
        rows = [row for [table] in tables for row in self.duckdb.sql(f"FROM ducklake_list_files('lake', '{table}')")]
        return {str(path).removeprefix(f"{self.data}/") for row in rows for path in (row[0], row[4]) if path}

    def files(self) -> set[str]:
        """Return the files that exist, without Sexton's own."""
        paths = (path.relative_to(self.data) for path in self.data.rglob("*") if path.is_file())
        return {str(path) for path in paths if path.parts[0] != "_sexton"}


class LakeWithoutSexton(TwoTables):
    """A lake that deletes its files by its own procedure."""

    def tell(self) -> None:
        """Drop a table, clean up, and read the other one."""
        self.console.say("First without Sexton: v1 is dropped, and DuckLake's own cleanup runs.")
        self.load()
        self.drop()
        self.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        error = self.count("v2")
        self.duckdb.close()
        self.console.same("whether v2 is lost", True, isinstance(error, str))
        self.console.say(f"Seen: table v2 was not dropped, and cannot be read: {error}")


class LakeWithSexton(TwoTables):
    """The same lake, attached to Sexton."""

    def __init__(self, console: Console, world: World, url: str, data: Path, suffix: str) -> None:
        super().__init__(console, url, INSTANCE, data, suffix)
        self._world = world

    def tell(self) -> None:
        """Do the same, and let a round delete what no snapshot needs."""
        self.console.act("The same lake, attached to Sexton")
        self.load()
        self.console.sexton("ducklake", "attach", INSTANCE, "--schema", INSTANCE)
        self.console.sexton("enable", INSTANCE)
        before = self.files()
        self.drop()
        self.console.say("4 hours of demo time pass.")
        self._world.move_clock(FOUR_HOURS)
        report = self.console.sexton_json("round", "run", INSTANCE)
        self.console.same("files that the lake lists, and files that exist", self.listed(), self.files())
        self.console.same("deleted files", len(before - self.files()), report["deleted"])
        for name, rows in (("v2", 1_000), ("t", 3_000)):
            for [snapshot] in self.duckdb.sql("SELECT snapshot_id FROM ducklake_snapshots('lake')"):
                self.console.same(f"rows of {name} at snapshot {snapshot}", rows, self.count(name, snapshot))
        self.console.show(self.console.sexton("why", self.shared.name, "--instance", INSTANCE))
        self.duckdb.close()
        self.console.say(f"Seen: {report['deleted']} merged files are gone; v2 has its rows, and a row keeps its file.")
