"""Every owner passes the suite of ``sexton.testing``."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton import contract
from sexton.contract import Collected, NewMark, Refused
from sexton.owners import plugins
from sexton.owners.catalog.model import NewTable, Schema, Written
from sexton.owners.catalog.store import Catalog
from sexton.owners.catalog.tables import TABLES
from sexton.recycle.planning.sql.measure import no_heartbeat
from sexton.testing import OwnerDriver, OwnerSuite, Workbench
from sexton.testing.workbench import INSTANCE, VAULT
from tests.support.owner_package import install


@pytest.fixture(scope="module")
def folder_package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the package of docs/owner-plugin.md."""
    site = install(tmp_path_factory.mktemp("package"))
    sys.path.insert(0, str(site))
    plugins.installed.cache_clear()
    yield
    sys.path.remove(str(site))
    plugins.installed.cache_clear()


class Everywhere(OwnerSuite):
    """The suite, on one database that is emptied for each test."""

    @pytest.fixture
    def database_url(self, database_url: str) -> str:
        return database_url


class FolderDriver:
    """Drives the lake of docs/owner-plugin.md."""

    def __init__(self, bench: Workbench, folder: Path) -> None:
        from folder_lake import FolderLake

        self._bench, self._lake, self._drops = bench, FolderLake(folder), dict[str, str]()

    def create(self, name: str) -> set[str]:
        keys = [f"lake/{name}/{n}.parquet" for n in range(2)]
        for key in keys:
            self._bench.put(key)
        self._lake.create(name, VAULT, keys)
        return set(keys)

    def drop(self, name: str) -> None:
        self._drops[name] = self._lake.drop(name)

    def undrop(self, name: str) -> bool:
        try:
            self._lake.undrop(self._drops[name], name)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def silence(self) -> Iterator[None]:
        away = self._lake.folder.with_name("away")
        self._lake.folder.rename(away)
        yield
        away.rename(self._lake.folder)


@pytest.mark.usefixtures("folder_package")
class TestFolder(Everywhere):
    """The owner of the page."""

    owner = "folder"

    def options(self, directory: Path) -> Mapping[str, str]:
        folder = directory / "lake"
        folder.mkdir(exist_ok=True)
        return {"folder": str(folder)}

    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        return FolderDriver(bench, directory / "lake")


class SharedDriver:
    """Drives the lake of the page whose tables share objects; it asks Sexton before it commits."""

    def __init__(self, bench: Workbench, tables: Path) -> None:
        self._bench, self._tables, self._commits = bench, tables, bench.engine.stores.commits

    def create(self, name: str) -> set[str]:
        keys = {f"lake/{name}/{n}.parquet" for n in range(2)}
        for key in keys:
            self._bench.put(key)
        assert self.undrop(name)
        self._bench.owner.mark_due(INSTANCE, {}, no_heartbeat)  # what is made and dropped between two looks is not seen
        return keys

    def drop(self, name: str) -> None:
        (self._tables / f"{name}.json").unlink()

    def undrop(self, name: str) -> bool:
        keys = [f"lake/{name}/{n}.parquet" for n in range(2)]
        try:
            commit = self._commits.admit(INSTANCE, [(VAULT, key) for key in keys], 60)
        except Collected:
            return False
        new = self._tables / f"{name}.new"
        new.write_text(json.dumps({"vault": VAULT, "keys": keys}))
        new.rename(self._tables / f"{name}.json")
        self._commits.end(INSTANCE, commit)
        return True

    @contextmanager
    def silence(self) -> Iterator[None]:
        folder = self._tables.parent
        away = folder.with_name("away")
        folder.rename(away)
        yield
        away.rename(folder)


@pytest.mark.usefixtures("folder_package")
class TestShared(Everywhere):
    """The owner of the page that compares."""

    owner = "shared"

    def options(self, directory: Path) -> Mapping[str, str]:
        (directory / "lake" / "tables").mkdir(parents=True, exist_ok=True)
        return {"folder": str(directory / "lake")}

    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        return SharedDriver(bench, directory / "lake" / "tables")


class SqlDriver:
    """Drives a small database: a table of objects, and a view of those that are live."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._drops = dict[str, str]()
        self._view = (
            "CREATE VIEW shop.sexton_live AS SELECT cast('file' AS text) AS kind, name AS id, "
            f"cast('{VAULT}' AS text) AS vault, key FROM shop.file"
        )
        self._run("CREATE SCHEMA shop", "CREATE TABLE shop.file (name text, key text)", self._view)
        registry = bench.engine.stores.registry
        registry.set_live_view(INSTANCE, "shop.sexton_live")

    def create(self, name: str) -> set[str]:
        keys = {f"data/{name}/{n}.dat" for n in range(2)}
        for key in keys:
            self._bench.put(key)
            self._run(f"INSERT INTO shop.file VALUES ('{name}', '{key}')")
        return keys

    def drop(self, name: str) -> None:
        keys = tuple(f"data/{name}/{n}.dat" for n in range(2))
        self._drops[name] = f"{name}.{len(self._drops)}"
        with self._bench.db.write() as c:
            c.execute(text(f"DELETE FROM shop.file WHERE name = '{name}'"))
            contract.mark(c, INSTANCE, "dropped", [NewMark(id=self._drops[name], vault=VAULT, keys=keys)])

    def undrop(self, name: str) -> bool:
        try:
            with self._bench.db.write() as c:
                contract.undrop(c, INSTANCE, "dropped", [self._drops[name]])
                for n in range(2):
                    c.execute(text(f"INSERT INTO shop.file VALUES ('{name}', 'data/{name}/{n}.dat')"))
        except Refused:
            return False
        return True

    @contextmanager
    def silence(self) -> Iterator[None]:
        self._run("ALTER VIEW shop.sexton_live RENAME TO away")
        yield
        self._run("ALTER VIEW shop.away RENAME TO sexton_live")

    def _run(self, *statements: str) -> None:
        with self._bench.db.write() as c:
            for statement in statements:
                c.execute(text(statement))


@pytest.mark.slow
class TestSql(Everywhere):
    """A database whose own transactions mark."""

    owner = "sql"

    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        return SqlDriver(bench)


class CatalogDriver:
    """Drives the catalog: an object is a table of two tablets, with one load."""

    def __init__(self, bench: Workbench) -> None:
        self._bench, self._catalog = bench, Catalog(bench.db, INSTANCE)

    def create(self, name: str) -> set[str]:
        self._catalog.create_table(NewTable(id=name, indexes={f"{name}-i": Schema()}, partitions={f"{name}-p": 2}))
        txn = self._catalog.begin(f"load-{name}", 3_600)
        outputs = self._catalog.prepare_rowsets(txn, self._catalog.tablets(table=name), VAULT)
        keys = {f"data/{output.tablet}/{output.rowset}_0.dat" for output in outputs}
        for key in keys:
            self._bench.put(key)
        self._catalog.write_rowset(*[Written(rowset=output.rowset, segments=1, bytes=10) for output in outputs])
        self._catalog.commit(txn)
        return keys

    def drop(self, name: str) -> None:
        self._catalog.drop_table(name)

    def undrop(self, name: str) -> bool:
        try:
            self._catalog.undrop_table(name)
        except Refused:
            return False
        return True

    @contextmanager
    def silence(self) -> Iterator[None]:
        tablets = TABLES.tablets
        with self._bench.db.write() as c:
            c.execute(text(f"ALTER TABLE {tablets.fullname} RENAME TO away"))
        yield
        away = f"{tablets.schema}.away" if tablets.schema else "away"
        with self._bench.db.write() as c:
            c.execute(text(f"ALTER TABLE {away} RENAME TO {tablets.name}"))


@pytest.mark.slow
class TestCatalog(Everywhere):
    """The reference catalog."""

    owner = "catalog"

    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        return CatalogDriver(bench)
