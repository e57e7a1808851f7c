"""Pass a list of values to one statement, as one parameter; read very many rows in pages, or in ranges of their ids.

To select rows by a list use ``in_list``, which PostgreSQL turns into index look-ups. A join with ``as_rows`` leaves
the order to the planner, which has no statistics of a batch made a second ago: use it for plain inserts only.

Counters that outlive the rounds they were counted in, written in the transaction that stores a round's report.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import abc, generators, pq, waiting
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    Text,
    and_,
    any_,
    func,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import DBAPIError

from sexton.database.engine import Database
from sexton.database.tables.columns import Instant

NAME = "given"
"""Alias of the rows of ``as_rows`` in a statement."""
MOST_BOUND = 4_096
"""Characters of a bound of a range."""
READ_ROWS = 2_000
"""Rows fetched at once."""
BLOCK_BYTES = 1 << 20
"""Bytes of the rows that ``copied`` reads at once; one row more may follow."""
ALL_ROWS = 2**62
"""As the size of a range: one range holds every row, and none is read to divide them."""
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
    """Return a table-like clause with one row per mapping; ``columns``: their keys, and the types of SQLAlchemy.

    A missing key is NULL. An instant is in ms since 1970.
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


def copied(c: Connection, query: ClauseElement, schema: Any) -> Iterator[Any]:
    """Yield the rows of a query as Arrow record batches, by COPY: no Python object is made of a row.

    Args:
        c: a transaction of a connection that is used once. Its limits hold, counted from its last statement.
        query: what is read.
        schema: the Arrow schema of its columns, which are texts, integers and booleans.

    Raises:
        DBAPIError: the database does not answer or refuses, or it shows a text that is none.
    """
    from pyarrow import ArrowInvalid, BufferReader, csv

    # The names of the columns precede each block, as the reader would remove a byte order mark at its beginning.
    header = ",".join(schema.names).encode() + b"\n"
    parse = csv.ParseOptions(newlines_in_values=True)
    nulls = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    convert = csv.ConvertOptions(column_types=schema, true_values=["t"], false_values=["f"], **nulls)
    statement, connection = query.compile(dialect=c.dialect), c.connection.driver_connection
    assert connection is not None
    # A function of a view may choose another encoding while it is read.
    copy = f"COPY ({statement}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
    try:
        with connection.cursor().copy(copy, statement.params):
            try:
                is_last = False
                while not is_last:
                    block, is_last = connection.wait(_next_block(connection.pgconn, header))
                    read = csv.ReadOptions(use_threads=False, block_size=len(block))
                    yield from csv.read_csv(BufferReader(block), read, parse, convert).to_batches()
            except BaseException:
                c.invalidate()  # the rest is not read: a function of a view may refuse to be cancelled
                raise
    except (psycopg.Error, ArrowInvalid) as e:
        c.invalidate()  # it may be lost, before the first row too
        raise DBAPIError.instance("", None, e, psycopg.Error) from None


def _next_block(connection: pq.abc.PGconn, header: bytes) -> abc.PQGen[tuple[bytearray, bool]]:
    """Return a header and the next rows of a COPY, and whether these are the last. Psycopg's own waits for each row."""
    block, read = bytearray(header), connection.get_copy_data
    while len(block) < BLOCK_BYTES:
        size, row = read(1)
        if size > 0:
            block += row
        elif size == 0:
            while not (yield waiting.Wait.R):
                pass
            connection.consume_input()
        else:
            result, *_ = yield from generators.fetch_many(connection)
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result)
            return block, True
    return block, False


NORMAL = "normal"
"""A vault's status in a round that could use it."""
ROUNDS, REMOVED, OBJECTS, BYTES = "rounds", "removed", "objects", "bytes"
"""Names of counters by kind, and ``*`` for rounds of any kind."""
VAULT, PROTECTIONS = "vault", "protections"
"""Names of counters by VAULT/STATUS, and by how protections ended."""


def add_to_counters(db: Database, tx: Connection, instance: str, counts: Mapping[tuple[str, str], int]) -> None:
    """Add to an instance's counters, by (name, label); no counter exceeds ``MOST_SUM``."""
    table = db.t.counter
    for (name, label), count in sorted(counts.items()):
        n = min(count, MOST_SUM)
        row = upsert(table).values(instance=instance, name=name, label=label, value=n)
        key = ["instance", "name", "label"]
        tx.execute(row.on_conflict_do_update(index_elements=key, set_={"value": plus(table.c.value, n)}))
