"""URLs of the database, columns, versions of the schema, and a database that is away."""

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import ARRAY, any_, cast, literal, select
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.schema import CreateTable

from sexton.database import schema
from sexton.database.engine import Database
from sexton.database.schema import VERSIONS
from sexton.database.tables import TABLES
from sexton.kernel.errors import BadInput


def test_a_url_of_postgresql_is_opened_with_psycopg() -> None:
    for scheme in ("postgresql", "postgresql+psycopg"):
        db = Database.open(f"{scheme}://nobody@127.0.0.1:1/shop")
        assert db.engine.url.drivername == "postgresql+psycopg"
        db.close()


def test_another_url_is_refused_without_its_password() -> None:
    for url in ("sqlite:///shop.db", "mysql://a:secret@b/c", "postgresql+asyncpg://a:secret@b/c", "secret"):
        for setting, own, live in (("database_url", url, ""), ("live_database_url", "postgresql://a@b/c", url)):
            with pytest.raises(BadInput, match=f"^{setting} .*; use postgresql://USER@HOST/DATABASE$") as refused:
                Database.open(own, live_url=live)
            assert "secret" not in str(refused.value)


DIALECT = psycopg.dialect()


def test_only_a_table_says_collate() -> None:
    id_ = TABLES.mark.c.id
    values = (id_.between("a", "b"), id_ == any_(literal(["a"], ARRAY(id_.type))), cast("a", id_.type) == id_)

    assert 'id TEXT COLLATE "C" NOT NULL' in str(CreateTable(TABLES.mark).compile(dialect=DIALECT))
    assert "COLLATE" not in str(select(id_).where(*values).compile(dialect=DIALECT))


def test_versions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "sexton.database:migrations")
    revisions = ScriptDirectory.from_config(config).walk_revisions()

    assert [*VERSIONS] == [revision.revision for revision in revisions][::-1]


def test_an_unreachable_database_is_named_with_its_setting() -> None:
    db = Database.open("postgresql://nobody@127.0.0.1:1/shop")

    with pytest.raises(schema.SchemaError, match=r"cannot reach the database: .*; check that it runs, .*DATABASE_URL"):
        schema.check(db, "test-1")
    db.close()
