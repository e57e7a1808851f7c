"""Hand a list of values to one statement as rows, on both databases: one JSON parameter instead of thousands."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Column, FromClause, Text, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB

from sexton.db.engine import Database


def as_rows(db: Database, data: Iterable[Mapping[str, Any]], name: str = "given", **columns: Any) -> FromClause:
    """Return a table-like clause with one row per mapping.

    Args:
        db: whose dialect is meant.
        data: mappings with the keys named in ``columns``; a missing key is NULL.
        name: alias in the statement.
        columns: column name to SQLAlchemy type.
    """
    text = json.dumps(list(data), ensure_ascii=True)
    if db.dialect == "postgresql":
        given = func.jsonb_to_recordset(literal(text, Text()).cast(JSONB))
        return given.table_valued(*[Column(c, t) for c, t in columns.items()], name=name).render_derived(
            name=name, with_types=True
        )
    each = func.json_each(literal(text, Text())).table_valued("value", name=f"{name}_json")
    picked = [func.json_extract(each.c.value, f"$.{c}", type_=t).label(c) for c, t in columns.items()]
    return select(*picked).select_from(each).subquery(name)
