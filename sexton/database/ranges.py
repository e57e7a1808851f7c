"""Read very many rows in pages, or in ranges of their ids, which can be read side by side, each as a stream."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, literal, select, true, tuple_

MOST_BOUND = 4_096
"""Characters of a bound of a range."""
READ_ROWS = 2_000
"""Rows fetched at once."""

ALL_ROWS = 2**62
"""As the size of a range: one range holds every row, and none is read to divide them."""


def beyond(columns: Sequence[ColumnElement[Any]], values: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition that a row comes after these values, in the order of these columns.

    As one comparison of rows, which PostgreSQL turns into a range of an index.
    """
    bound = (literal(value, column.type) for column, value in zip(columns, values, strict=True))
    return tuple_(*columns) > tuple_(*bound)


def newest(table: Table, last: int, instance: str | None = None, before: int | None = None) -> Select[Any]:
    """Select the newest rows of a table, newest first, of one instance or of all; ``before``: with lower numbers."""
    of_instance = [] if instance is None else [table.c.instance == instance]
    lower = [] if before is None else [table.c.id < before]
    return select(table).where(*of_instance, *lower).order_by(table.c.id.desc()).limit(last)


def within(column: ColumnElement[str], after: str, until: str) -> ColumnElement[bool]:
    """Return the condition that a text is beyond ``after`` and up to ``until``; an empty bound does not limit it."""
    lower = [column > after] if after else []
    upper = [column <= until] if until else []
    return and_(true(), *lower, *upper)


def ranges(c: Connection, ids: Select[Any], rows: int) -> list[tuple[str, str]]:
    """Return ranges (after, up to) of about ``rows`` ids each, which together hold every id, also those added later."""
    if rows >= ALL_ROWS:
        return [("", "")]
    column = ids.selected_columns[0].label("id")
    numbered = ids.with_only_columns(column, func.row_number().over(order_by=column).label("n")).subquery()
    end = func.substr(numbered.c.id, 1, MOST_BOUND)  # any text that is between two ids may be a bound
    ends = list(c.execute(select(end).where(numbered.c.n % rows == 0).order_by(numbered.c.id)).scalars())
    points = ["", *dict.fromkeys(ends)]
    return list(zip(points, [*points[1:], ""], strict=True))
