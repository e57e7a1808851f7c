"""Pass a list of values to one statement, on both databases: one parameter instead of thousands.

To select rows by a list use ``in_list``, which both databases turn into index look-ups. A join with ``as_rows`` leaves
the order to the planner, which has no statistics of a batch made a second ago: use it for plain inserts only.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, FromClause, Table, Text, any_, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import JSONB

from sexton.database.engine import Database

NAME = "given"
"""Alias of the rows of ``as_rows`` in a statement."""
MOST_SUM = 2**62 - 1
"""Largest sum that is stored: two of them fit into a column. Owners state sizes, and no size may fail a statement."""
_MEBI = 2**20


def in_list(db: Database, column: ColumnElement[Any], values: Iterable[Any]) -> ColumnElement[bool]:
    """Return the condition that the column is one of the values."""
    if db.dialect == "postgresql":
        return column == any_(literal(list(values), ARRAY(column.type)))
    elements = func.json_each(literal(json.dumps(list(values)), Text())).table_valued("value")
    return column.in_(select(elements.c.value))


def upsert(db: Database, table: Table) -> Any:
    """Return an INSERT of the database's dialect: it has ``on_conflict_do_update`` and ``on_conflict_do_nothing``."""
    return (postgresql.insert if db.dialect == "postgresql" else sqlite.insert)(table)


def plus(db: Database, column: ColumnElement[int], number: ColumnElement[int] | int) -> ColumnElement[int]:
    """Return the sum of a column and a number from 0 to ``MOST_SUM``, at most ``MOST_SUM``."""
    least: Any = func.least if db.dialect == "postgresql" else func.min
    added: ColumnElement[int] = literal(number, BigInteger()) if isinstance(number, int) else number
    below: ColumnElement[int] = least(column, MOST_SUM - added, type_=BigInteger())
    return below + added


def sum_of(db: Database, column: ColumnElement[int], most: int = MOST_SUM) -> ColumnElement[int]:
    """Return the sum of a column's values of 0 and more as an aggregate, at most ``most``; of no rows 0."""
    if db.dialect == "postgresql":
        return func.least(func.coalesce(func.sum(column), 0), most).cast(BigInteger())
    # SQLite refuses a sum that exceeds 64 bits.
    mebis = func.min(func.coalesce(func.sum(column // _MEBI), 0), MOST_SUM // _MEBI + 1)
    rests = func.coalesce(func.sum(column % _MEBI), 0)
    return func.min(mebis * _MEBI + rests, most, type_=BigInteger())


def as_rows(db: Database, data: Iterable[Mapping[str, Any]], /, **columns: Any) -> FromClause:
    """Return a table-like clause with one row per mapping.

    Args:
        db: the database whose dialect is used.
        data: mappings with the keys named in ``columns``; a missing key is NULL.
        columns: column name to SQLAlchemy type.
    """
    text = json.dumps(list(data), ensure_ascii=True)
    if db.dialect == "postgresql":
        records = func.jsonb_to_recordset(literal(text, Text()).cast(JSONB))
        return records.table_valued(*[Column(c, t) for c, t in columns.items()], name=NAME).render_derived(
            name=NAME, with_types=True
        )
    elements = func.json_each(literal(text, Text())).table_valued("value", name=f"{NAME}_json")
    fields = [func.json_extract(elements.c.value, f"$.{c}", type_=t).label(c) for c, t in columns.items()]
    # Read the JSON once: SQLite would otherwise parse it again for every joined row (measured: 8 s a page).
    return select(*fields).select_from(elements).cte(NAME).prefix_with("MATERIALIZED", dialect="sqlite")
