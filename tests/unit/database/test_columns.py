"""A column's type says the same in a table and in a query, but for the collation."""

from sqlalchemy import ARRAY, any_, cast, literal, select
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.schema import CreateTable

from sexton.database.tables import TABLES

DIALECT = psycopg.dialect()


def test_only_a_table_says_collate() -> None:
    id_ = TABLES.mark.c.id
    values = (id_.between("a", "b"), id_ == any_(literal(["a"], ARRAY(id_.type))), cast("a", id_.type) == id_)

    assert 'id TEXT COLLATE "C" NOT NULL' in str(CreateTable(TABLES.mark).compile(dialect=DIALECT))
    assert "COLLATE" not in str(select(id_).where(*values).compile(dialect=DIALECT))
