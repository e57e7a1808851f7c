"""Pass a list of values to one statement: one parameter instead of thousands.

To select rows by a list use ``in_list``, which PostgreSQL turns into index look-ups. A join with ``as_rows`` leaves
the order to the planner, which has no statistics of a batch made a second ago: use it for plain inserts only.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, FromClause, Text, any_, func, literal
from sqlalchemy.dialects.postgresql import JSONB

from sexton.database.tables.columns import Instant

NAME = "given"
"""Alias of the rows of ``as_rows`` in a statement."""
MOST_SUM = 2**62 - 1
"""Largest sum that is stored: two of them fit into a column. Owners state sizes, and no size may fail a statement."""


def in_list(column: ColumnElement[Any], values: Iterable[Any]) -> ColumnElement[bool]:
    """Return the condition that the column is one of the values."""
    return column == any_(literal(list(values), ARRAY(column.type)))


def plus(column: ColumnElement[int], number: ColumnElement[int] | int) -> ColumnElement[int]:
    """Return the sum of a column and a number from 0 to ``MOST_SUM``, at most ``MOST_SUM``."""
    added: ColumnElement[int] = literal(number, BigInteger()) if isinstance(number, int) else number
    below: ColumnElement[int] = func.least(column, MOST_SUM - added, type_=BigInteger())
    return below + added


def sum_of(column: ColumnElement[int], most: int = MOST_SUM) -> ColumnElement[int]:
    """Return the sum of a column's values of 0 and more as an aggregate, at most ``most``; of no rows 0."""
    return func.least(func.coalesce(func.sum(column), 0), most).cast(BigInteger())


def as_rows(data: Iterable[Mapping[str, Any]], /, **columns: Any) -> FromClause:
    """Return a table-like clause with one row per mapping.

    Args:
        data: mappings with the keys named in ``columns``; a missing key is NULL. An instant is in ms since 1970.
        columns: column name to SQLAlchemy type.
    """
    instants = {name: type_ for name, type_ in columns.items() if isinstance(type_, Instant)}
    rows = [dict(row) for row in data]
    for row in rows:
        for name, type_ in instants.items():
            at = type_.process_bind_param(row.get(name), None)
            row[name] = None if at is None else at.isoformat()
    records = func.jsonb_to_recordset(literal(json.dumps(rows), Text()).cast(JSONB))
    return records.table_valued(*[Column(c, t) for c, t in columns.items()], name=NAME).render_derived(
        name=NAME, with_types=True
    )
