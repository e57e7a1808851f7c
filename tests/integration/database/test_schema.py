"""``sexton init`` and its printed SQL create one schema, once, for one deployment."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from sexton.contract import NewMark
from sexton.database import schema
from sexton.database.engine import Database
from sexton.database.tables import METADATA
from sexton.kernel.errors import BadInput
from tests.servers.postgres import Cluster
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing, put

OURS = "test-schema"


@pytest.fixture
def empty_url(postgres: Cluster) -> str:
    """Return the URL of an empty database."""
    return postgres.create_database()


@pytest.fixture
def db(empty_url: str) -> Iterator[Database]:
    schema.init(empty_url, OURS)
    database = Database.open(empty_url)
    yield database
    database.close()


def columns(db: Database) -> dict[str, list[dict[str, Any]]]:
    """Return what the database itself says about each table."""
    look = inspect(db.engine)
    return {t.name: [dict(c) for c in look.get_columns(t.name, "sexton")] for t in METADATA.sorted_tables}


def contents(db: Database) -> dict[str, list[tuple[Any, ...]]]:
    with db.read() as c:
        return {t.fullname: [tuple(r) for r in c.execute(select(t))] for t in METADATA.sorted_tables}


def test_init_again_changes_nothing_whatever_its_deployment(db: Database, empty_url: str) -> None:
    schema.move_clock(db, 7)
    before = columns(db), contents(db)

    schema.init(empty_url, OURS)
    with pytest.raises(schema.SchemaError, match="belongs to deployment test-schema, this process to test-other"):
        schema.init(empty_url, "test-other")
    with pytest.raises(schema.SchemaError, match="belongs to deployment test-schema"):
        schema.check(db, "test-other")

    assert repr((columns(db), contents(db))) == repr(before)
    schema.check(db, OURS)
    assert schema.belongs_to(empty_url) == OURS
    names = {t.name for t in METADATA.sorted_tables}
    assert names | {"alembic_version"} == {*inspect(db.engine).get_table_names("sexton")}


@pytest.mark.slow
def test_inits_at_the_same_moment_make_one_schema(empty_url: str) -> None:
    code = "import sys; from sexton.database import schema; print('up', flush=True); sys.stdin.read(1); "
    code += f"schema.init({empty_url!r}, {OURS!r})"
    pipe = subprocess.PIPE
    both = [subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe) for _ in "12"]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()

    for process in both:
        assert process.stdin is not None
        process.stdin.write(b"x")
        process.stdin.flush()
    said = [process.communicate(timeout=PATIENCE_SECONDS)[1].decode().strip()[-200:] for process in both]

    # One may be told to come again, in one sentence; neither may spoil what the other made.
    codes = [process.returncode for process in both]
    assert 0 in codes, said
    assert all(code == 0 or "schema.SchemaError: " in why for code, why in zip(codes, said, strict=True)), said
    schema.init(empty_url, OURS)
    database = Database.open(empty_url)
    schema.check(database, OURS)
    assert contents(database)[database.t.clock.fullname] == [(True, OURS, 0, "", "0001")]
    assert contents(database)[database.t.instance_guard.fullname] == [("*", 0)]
    database.close()


def upgrade(db: Database, works_with: str) -> None:
    """Let the schema be of a newer version, which some older programs may use."""
    with db.write() as c:
        c.execute(text("UPDATE sexton.alembic_version SET version_num = '0010'"))
        c.execute(update(db.t.clock).values(works_with=works_with))


def version(db: Database) -> str:
    with db.read() as c:
        return str(c.execute(text("SELECT version_num FROM sexton.alembic_version")).scalar_one())


def test_a_newer_schema_is_used_only_if_it_says_so(db: Database, empty_url: str) -> None:
    with db.write() as c:
        c.execute(update(db.t.clock).values(works_with="0000"))
    schema.init(empty_url, OURS)  # it says which programs may use the schema
    with db.read() as c:
        assert c.execute(select(db.t.clock.c.works_with)).scalar_one() == schema.WORKS_WITH

    upgrade(db, "0001")  # it only adds
    before = contents(db)
    schema.check(db, OURS)
    schema.init(empty_url, OURS)  # of a rollback
    assert contents(db) == before
    assert "schema 0010" in schema.status(empty_url, OURS)
    assert version(db) == "0010"

    upgrade(db, "0010")
    changed = columns(db), contents(db)
    refusal = "at version 0010, which this Sexton .* does not know and cannot upgrade; use the Sexton that created it"
    with pytest.raises(schema.SchemaError, match=refusal):
        schema.init(empty_url, OURS)
    with pytest.raises(schema.SchemaError, match=refusal):
        schema.check(db, OURS)
    with pytest.raises(schema.SchemaError, match="or a newer one, and check SEXTON_DATABASE_URL"):
        schema.status(empty_url, OURS)
    assert repr((columns(db), contents(db))) == repr(changed)
    assert version(db) == "0010"


def test_older_init_beside_a_newer_one_lets_no_older_program_in(db: Database, empty_url: str) -> None:
    """The newer ``sexton init`` upgrades the schema between two transactions of the older one, as in a rollback."""
    newer = ("UPDATE sexton.alembic_version SET version_num = '0010'", "UPDATE sexton.clock SET works_with = '0010'")

    def upgrade_before(_c: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO sexton.clock"):
            for line in newer:
                cursor.execute(line)

    event.listen(Engine, "before_cursor_execute", upgrade_before)
    try:
        schema.init(empty_url, OURS)
    finally:
        event.remove(Engine, "before_cursor_execute", upgrade_before)

    with pytest.raises(schema.SchemaError, match="at version 0010, which this Sexton"):
        schema.check(db, OURS)


def test_an_empty_database_is_refused_and_stays_empty(empty_url: str) -> None:
    database = Database.open(empty_url)

    with pytest.raises(schema.SchemaError, match="run: sexton init"):
        schema.check(database, OURS)
    assert schema.belongs_to(empty_url) == ""
    assert inspect(database.engine).get_table_names("sexton") == []

    schema.init(empty_url, "demo-1")
    schema.move_clock(database, 5)
    assert schema.status(empty_url, "demo-1").endswith("clock moved forward by 5 s")
    database.close()


def test_the_clock_moves_forward_in_no_real_deployment(db: Database) -> None:
    clock = db.t.clock.fullname
    for deployment in ("sexton-1", "prod", "TEST-x", "test", "demo_x", " test-x", "x\ntest-y"):
        with db.write() as c:
            c.execute(text(f"UPDATE {clock} SET deployment = :d"), {"d": deployment})
        with pytest.raises(BadInput, match="demo- or test-"):
            schema.move_clock(db, 1)
        with pytest.raises(IntegrityError), db.write() as c:
            c.execute(text(f"UPDATE {clock} SET offset_seconds = 1"))
        with pytest.raises(IntegrityError), db.write() as c:
            c.execute(text(f"INSERT INTO {clock} (one, deployment, offset_seconds) VALUES (false, 'test-x', 1)"))
        assert contents(db)[clock] == [(True, deployment, 0, "", "0001")]
    with db.write() as c:
        c.execute(text(f"UPDATE {clock} SET deployment = '{OURS}'"))
        before = db.now(c)

    schema.move_clock(db, 100)
    schema.move_clock(db, 20)

    with db.read() as c:
        assert 120_000 <= db.now(c) - before < 130_000
    with pytest.raises(BadInput, match="only moves forward"):
        schema.move_clock(db, -1)
    with pytest.raises(DBAPIError, match="only moves forward"), db.write() as c:
        c.execute(text(f"UPDATE {clock} SET offset_seconds = 119"))


def test_the_printed_sql_creates_the_schema_of_init(db: Database, postgres: Cluster) -> None:
    url = postgres.create_database()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as pg:
        pg.execute(schema.sql(OURS).encode())
    database = Database.open(url)

    schema.check(database, OURS)
    assert repr(columns(database)) == repr(columns(db))
    assert rules(database) == rules(db)
    assert contents(database) == contents(db)
    database.close()


def rules(db: Database) -> set[tuple[str, ...]]:
    """Return options of tables, triggers, indexes, policies, functions and constraints by name and text."""
    wanted = """
        SELECT 'table', relname, concat(relrowsecurity, reloptions) FROM pg_class
            WHERE relnamespace = 'sexton'::regnamespace
        UNION SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'sexton'
        UNION SELECT 'check', conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'sexton'::regnamespace
        UNION SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
        UNION SELECT 'policy', polname, coalesce(pg_get_expr(polqual, polrelid), '')
            || coalesce(pg_get_expr(polwithcheck, polrelid), '') FROM pg_policy
        UNION SELECT 'function', proname, prosrc FROM pg_proc WHERE pronamespace = 'sexton'::regnamespace"""
    with db.read() as c:
        return {tuple(r) for r in c.execute(text(wanted))}


@pytest.mark.slow
def test_schema_and_a_round_on_the_oldest_server(debian_url: str, tmp_path: Path) -> None:
    rig = Rig(debian_url).instance()
    with rig.db.read() as c:
        version = int(c.exec_driver_sql("SHOW server_version_num").scalar_one())
    root = rig.local(tmp_path / "v")
    put(root, "data/a.dat")
    put(root, "data/b.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/a.dat",)))

    report = rig.round(after=10_801)

    rig.db.close()
    assert (report.deleted, set(listing(root))) == (1, {"data/b.dat"})
    assert version >= 140_000
