"""Column types that mean the same on PostgreSQL and SQLite, and the metadata that holds every table definition.

The definitions have columns and types only; constraints, defaults, triggers and functions are in
``migrations/versions/*.sql``, and ``tests/integration/database/test_schema.py`` compares the two.
"""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Integer, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)

METADATA = MetaData()
"""All definitions by their name in ``Tables``; ``build`` copies them under their name in a database."""


class Instant(TypeDecorator[int]):
    """Milliseconds since 1970 in Python; timestamptz on PostgreSQL, so that people can read it, integer on SQLite."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(DateTime(timezone=True) if dialect.name == "postgresql" else BigInteger())

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "postgresql":
            return value
        return _EPOCH + value * _MILLISECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        if value is None or dialect.name != "postgresql":
            return value  # type: ignore[no-any-return]
        return (value - _EPOCH) // _MILLISECOND  # type: ignore[no-any-return]


Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""A JSON document; Python's None is SQL's NULL."""
Serial = BigInteger().with_variant(Integer(), "sqlite")
"""An id that the database assigns; SQLite assigns only to columns whose type is exactly INTEGER."""
