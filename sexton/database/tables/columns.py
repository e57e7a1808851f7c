"""The words in which this folder states the schema: a column by its type, a table, an index.

A column is NOT NULL unless it says ``null``. Everything is in PostgreSQL's schema ``sexton``.
"""

import datetime as dt
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)

METADATA = sa.MetaData(schema="sexton")
"""Every table; the migrations create them."""
NOW = sa.text("sexton.now()")
"""As a default: the database's clock plus the test offset."""


class Instant(TypeDecorator[int]):
    """Milliseconds since 1970 in Python; timestamptz in the database, so that people can read it."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: int | None, _dialect: Dialect | None) -> Any:
        return None if value is None else _EPOCH + value * _MILLISECOND

    def process_result_value(self, value: Any, _dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MILLISECOND


class Word(sa.Text):
    """Text that is a name or key: compared and ordered by its bytes, whatever the database's language."""


@compiles(Word)
def _word(_type: Word, _compiler: Any, type_expression: Any = None, **_: Any) -> str:
    """Return the type: with its collation in a table only, because BETWEEN refuses a value that has one."""
    return 'TEXT COLLATE "C"' if isinstance(type_expression, sa.Column) else "TEXT"


def _column(
    type_: TypeEngine[Any],
    name: str,
    *rules: SchemaItem,
    key: bool = False,
    null: bool = False,
    default: str | int | sa.TextClause | None = None,
) -> sa.Column[Any]:
    """Return a column; each type has a name of its own for it: ``text("reason", default="")``.

    ``rules``: checks and foreign keys. ``key``: it is one of the columns of the primary key, in the order of the table.
    ``null``: it may be NULL. ``default``: a value, or an expression as ``sqlalchemy.text``.
    """
    if isinstance(default, int):
        default = sa.text(str(default).lower())
    return sa.Column(name, type_, *rules, primary_key=key, nullable=null, server_default=default, autoincrement=False)


bigint, integer, double = (
    partial(_column, sa.BigInteger()),
    partial(_column, sa.Integer()),
    partial(_column, sa.Double()),
)
boolean, instant, bytea = (
    partial(_column, sa.Boolean()),
    partial(_column, Instant()),
    partial(_column, sa.LargeBinary()),
)
text, word = partial(_column, sa.Text()), partial(_column, Word())
jsonb = partial(_column, JSONB(none_as_null=True))  # Python's None is SQL's NULL


def serial(name: str) -> sa.Column[int]:
    """Return a primary key that the database assigns."""
    return sa.Column(name, sa.BigInteger(), sa.Identity(always=True), primary_key=True)


def table(name: str, *items: SchemaItem, owners_may: str = "") -> sa.Table:
    """Return a table of columns, constraints and indexes; ``owners_may``: the rights of owners' roles, in SQL."""
    return sa.Table(name, METADATA, *items, info={"owners_may": owners_may})


def index(name: str, *columns: str, where: str = "", unique: bool = False) -> sa.Index:
    """Return an index of columns, or of expressions that have parentheses; ``where``: of these rows only."""
    on = [sa.text(column) if "(" in column else column for column in columns]
    return sa.Index(name, *on, unique=unique, postgresql_where=sa.text(where) if where else None)
