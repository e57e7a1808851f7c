"""A DuckLake in a directory whose catalog is in Sexton's database, attached as the instance ``shop``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from examples.demo.duckdb_client import DuckDb, duckdb
from sexton.recycle.model import RoundReport
from tests.support.command import Printed, run
from tests.support.rig import Rig, stores_of

LATER = 10_801
"""Seconds after which a file that the lake dropped is due."""


class AttachedLake:
    """The lake, a rig of Sexton, and a DuckDB process."""

    def __init__(self, url: str, home: Path, options: str = "", role: str = "") -> None:
        """Create the lake and Sexton's tables, and attach nothing yet; ``role``: the lake's own login."""
        self.data, self.options, self._has_login = home / "data", options, bool(role)
        self.url = url.replace("//postgres@", f"//{role}@") if role else url
        self.data.mkdir()
        rig = Rig(url)
        self.rig = Rig(url, owner=stores_of(rig.db).owners)
        self.schema = "lake"
        with rig.db.write() as c:
            c.exec_driver_sql(f"CREATE SCHEMA {self.schema} AUTHORIZATION {role or 'CURRENT_USER'}")
        self.db = DuckDb(self.url, f"{self.data}/", options, schema=self.schema)
        self.db.sql("CALL lake.set_option('data_inlining_row_limit', 0)")

    def attach(self, capsys: pytest.CaptureFixture[str], *, enable: bool = True) -> "AttachedLake":
        """Attach it, and let rounds delete."""
        printed = self.command(capsys, "attach")
        assert printed.code == 0, printed.err
        if enable:
            self.rig.registry.enable("shop")
        return self

    def command(self, capsys: pytest.CaptureFixture[str], verb: str, *words: str) -> Printed:
        """Run `sexton ducklake VERB shop`."""
        schema = ("--schema", self.schema) if verb == "attach" else ()
        login = ("--lake-url", self.url) if self._has_login else ()
        return run(self.rig, capsys, "ducklake", verb, "shop", *schema, *login, *words)

    @contextmanager
    def another(self, **more: str) -> Iterator[DuckDb]:
        """Yield a second DuckDB process with the same lake."""
        with duckdb(self.url, f"{self.data}/", self.options, schema=self.schema, **more) as process:
            yield process

    def files(self) -> set[str]:
        """Return the keys of the files that exist, without Sexton's own."""
        paths = (path.relative_to(self.data) for path in self.data.rglob("*") if path.is_file())
        return {str(path) for path in paths if path.parts[0] != "_sexton"}

    def listed(self, *tables: str) -> set[str]:
        """Return the keys of the files that the lake itself lists for tables, deletes included."""
        keys = set()
        for table in tables:
            schema, _, name = table.rpartition(".")
            where = f", schema => '{schema}'" if schema else ""
            for row in self.db.sql(f"FROM ducklake_list_files('lake', '{name}'{where})"):
                keys |= {str(path).removeprefix(f"{self.data}/") for path in (row[0], row[4]) if path}
        return keys

    def marks(self) -> dict[str, str]:
        """Return key → kind of the waiting marks."""
        t = self.rig.db.t.mark
        with self.rig.db.read() as c:
            return {keys[0]: kind for keys, kind in c.execute(select(t.c["keys"], t.c.kind))}

    def run_and_expire(self, *statements: str) -> None:
        """Run statements of the lake, and let all its snapshots but the newest expire."""
        self.db.run(*statements)
        self.db.expire()

    def round(self, seconds: int = LATER) -> RoundReport:
        """Run a round after a time."""
        return self.rig.round(after=seconds)

    def close(self) -> None:
        """End the DuckDB process."""
        self.db.close()
