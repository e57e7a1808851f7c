"""Tell the story of a DuckLake twice: cleaned by its own procedure it loses a table, cleaned by Sexton it does not."""

from pathlib import Path

import psycopg

from examples.demo.console import Console, DemoFailed
from examples.demo.duckdb_client import PYTHON, DuckDb, DuckDbError
from examples.demo.ending import Sight
from examples.demo.world import World

FOUR_HOURS = 4 * 3_600


def clean_a_lake(console: Console, world: World, home: Path) -> list[Sight]:
    """Show the part; return rows of the table at the end.

    Each run has lakes of its own: one that failed may have left a file that no lake lists.
    """
    console.act("A DuckLake: two tables share a Parquet file, and one of them is dropped")
    if not PYTHON.exists():
        raise DemoFailed("DuckDB is not installed; run: make demo-ducklake")
    number = world.instance.rpartition("-")[2]
    LakeWithoutSexton(console, world, home, f"own_{number}").tell()
    attached = LakeWithSexton(console, world, home, f"lake_{number}")
    attached.tell()
    return [Sight("the lake's file", f"sexton why shared.parquet --instance {attached.name}", "ducklake.md")]


class TwoTables:
    """A lake with a file that tables v1 and v2 share, and a table whose files are merged."""

    def __init__(self, console: Console, world: World, home: Path, name: str) -> None:
        """Create the lake, with its catalog in a schema of this name, and its files in a directory."""
        self.console, self.world, self.name = console, world, name
        self.data = home / "ducklake" / name
        self.data.mkdir(parents=True)
        self.shared = self.data / "shared.parquet"
        url = world.environment["SEXTON_DATABASE_URL"]
        with psycopg.connect(url.replace("+psycopg", "")) as c:
            c.execute(f"CREATE SCHEMA {name}".encode())
        self.duckdb = DuckDb(url, f"{self.data}/", schema=name)

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
            self.run(f"CREATE TABLE {name}(a BIGINT)")
            self.run(f"CALL ducklake_add_data_files('lake', '{name}', '{self.shared}')")
        self.run("CREATE TABLE t(a BIGINT)", *["INSERT INTO t FROM range(1000)"] * 3)

    def drop(self) -> None:
        """Merge the files of one table, drop another, and let the snapshots expire that needed the old files."""
        self.run("CALL ducklake_merge_adjacent_files('lake')", "DROP TABLE v1")
        self.run("CALL ducklake_expire_snapshots('lake', older_than => now())")

    def count(self, name: str, snapshot: int | None = None) -> int | str:
        """Return how many rows are read from a table's files, or why they cannot be; ``snapshot``: None: the newest."""
        at = "" if snapshot is None else f" AT (VERSION => {snapshot})"
        try:  # the catalog alone would answer count(*)
            return int(self.duckdb.sql(f"SELECT len(list(a)) FROM {name}{at}")[0][0])
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

    def tell(self) -> None:
        """Do the same, and let a round delete what no snapshot needs."""
        self.console.act("The same lake, attached to Sexton")
        self.load()
        self.console.sexton("ducklake", "attach", self.name, "--schema", self.name)
        self.console.sexton("enable", self.name)
        before = self.files()
        self.drop()
        self.console.say("4 hours of demo time pass.")
        self.world.move_clock(FOUR_HOURS)
        report = self.console.sexton_json("round", "run", self.name)
        self.console.same("files that the lake lists, and files that exist", self.listed(), self.files())
        self.console.same("deleted files", len(before - self.files()), report["deleted"])
        for name, rows in (("v2", 1_000), ("t", 3_000)):
            for [snapshot] in self.duckdb.sql("SELECT snapshot_id FROM ducklake_snapshots('lake')"):
                self.console.same(f"rows of {name} at snapshot {snapshot}", rows, self.count(name, snapshot))
        self.console.show(self.console.sexton("why", self.shared.name, "--instance", self.name))
        self.duckdb.close()
        self.console.say(f"Seen: {report['deleted']} merged files are gone; v2 has its rows, and a row keeps its file.")
