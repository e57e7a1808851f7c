"""Convert rows of ``mark`` to values, and marks to SQL conditions.

Find the ancestors of marks: parents as marks and history name them, up to a limit.

An owner decides how long a chain of parents is. So it is climbed ``PARENT_LEVELS`` levels, and a mark with more of them
is never judged by those alone.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    and_,
    cast,
    false,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.model import Cutoff, DueMark, Ref

CLAIMED: ColumnElement[str] = literal_column("'CLAIMED'")
"""Text instead of a parameter: the planner must see that the partial indexes apply."""

MOST_KEYS = 5_000
"""Keys after which no further mark is read: a mark may name 1,000 keys of 1,024 bytes."""


BEGINS = "$[*] ? (@ starts with $prefix)"


def waits(mark: Table) -> ColumnElement[bool]:
    """Return the condition that a mark is neither claimed nor quarantined, as the index of due marks has it."""
    return and_(mark.c.state != CLAIMED, mark.c.quarantined_reason.is_(None))


def is_due(mark: FromClause, cutoff: Cutoff | ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a mark is due; it and its negation are ranges of the index of due marks.

    ``cutoff``: that of the kind of the marks, or an expression that has it.
    """
    return mark.c.retention_starts_at <= cutoff


def has_key_under(mark: Table, prefix: str) -> ColumnElement[bool]:
    """Return the condition that one of the keys of a mark begins with a prefix."""
    begins = func.jsonb_path_exists(mark.c["keys"], cast(BEGINS, JSONPATH), cast({"prefix": prefix}, JSONB))
    return func.coalesce(begins, false())


def due_columns(mark: Table) -> list[Column[Any]]:
    """Return the columns of ``mark`` that ``due_mark`` reads."""
    names = (
        "kind",
        "id",
        "retention_starts_at",
        "vault",
        "prefix",
        "keys",
        "bytes",
        "first_pass_at",
        "etags",
        "written",
    )
    return [mark.c[name] for name in names]


def read_due(c: Connection, query: Select[Any], order: Sequence[Column[Any]]) -> list[DueMark]:
    """Return the first marks of a query of ``due_columns``: at least one if there is any, and up to ``MOST_KEYS`` keys.

    One statement reads them: with a cursor that fetches a few marks at a time, a chunk of marks of one key each took
    as long to read as to claim.
    """
    number = func.jsonb_array_length(query.selected_columns["keys"]).label("number_of_keys")
    page = query.add_columns(number).order_by(*order).subquery()
    in_order = [page.c[column.name] for column in order]
    keys_before = func.sum(page.c.number_of_keys).over(order_by=in_order, rows=(None, -1))
    counted = select(page, keys_before.label("keys_before")).subquery()
    columns = [counted.c[column.name] for column in query.selected_columns]
    few_before = func.coalesce(counted.c.keys_before, 0) < MOST_KEYS
    rows = c.execute(select(*columns).where(few_before).order_by(*[counted.c[column.name] for column in order]))
    return [due_mark(row) for row in rows]


def due_mark(row: Any) -> DueMark:
    """Return a row of ``due_columns`` as a value.

    Keys that are not a list of text make the mark unresolvable, not the query fail.
    """
    kind, id_, retention_starts_at, vault, prefix, keys, size, first_pass_at, etags, written = row
    if keys is not None and not all(isinstance(k, str) for k in keys):
        keys = [""]  # refused as a key, so the mark is quarantined
    return DueMark(
        kind=kind,
        id=id_,
        retention_starts_at=retention_starts_at,
        vault=vault,
        prefix=prefix,
        keys=None if keys is None else tuple(keys),
        bytes=size,
        in_second_pass=first_pass_at is not None,
        etags=tuple(etags or ()),
        written=tuple(written or ()),
    )


def refs_in(table: Table, refs: Iterable[Ref]) -> ColumnElement[bool]:
    """Return the condition that a row of ``table`` is one of these marks; their kinds are few."""
    return _one_of(table.c.kind, table.c.id, refs)


def children_of(table: Table, refs: Iterable[Ref]) -> ColumnElement[bool]:
    """Return the condition that a row of ``table`` names one of these marks as its parent."""
    return _one_of(table.c.parent_kind, table.c.parent_id, refs)


def named_by(mark: Table, rows: FromClause, instance: str) -> ColumnElement[bool]:
    """Return the condition that joins rows of ``as_rows``, with kind and id, to marks of an instance by primary key."""
    return and_(mark.c.instance == instance, mark.c.kind == rows.c.kind, mark.c.id == rows.c.id)


def _one_of(kind: Column[Any], id_: Column[Any], refs: Iterable[Ref]) -> ColumnElement[bool]:
    kinds: dict[str, list[str]] = {}
    for ref in refs:
        kinds.setdefault(ref.kind, []).append(ref.id)
    return or_(false(), *[and_(kind == k, in_list(id_, ids)) for k, ids in kinds.items()])


PARENT_LEVELS = 16
"""Levels of parents that holds climb; the function ``sexton.undrop`` climbs as many."""
TOO_MANY_LEVELS = f"not excluded: more than {PARENT_LEVELS} levels of parents"
"""Why a hold on any mark blocks one whose ancestors are not all read."""


class Lineage(NamedTuple):
    """A mark and its ancestors, whether these are marked, gone or unknown."""

    refs: set[Ref]
    is_whole: bool
    """Whether there are no further ancestors."""


def find_ancestors(db: Database, tx: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, Lineage]:
    """Return each mark with its ancestors; these are read once, however many marks share them.

    A chain of parents may be a circle.
    """
    parents: dict[Ref, set[Ref]] = {}
    level = set(refs)
    for _ in range(PARENT_LEVELS + 1):
        if not level:
            break
        parents |= {ref: set() for ref in level}
        for table in (db.t.mark, db.t.mark_history):
            has_parent = and_(table.c.instance == instance, table.c.parent_id.is_not(None), refs_in(table, level))
            columns = (table.c.kind, table.c.id, table.c.parent_kind, table.c.parent_id)
            for row in tx.execute(select(*columns).where(has_parent)):
                parents[Ref(row.kind, row.id)].add(Ref(row.parent_kind, row.parent_id))
        level = {parent for ref in level for parent in parents[ref]} - parents.keys()
    lineages: dict[Ref, Lineage] = {}
    for ref in refs:
        lineage, level = {ref}, {ref}
        for _ in range(PARENT_LEVELS):
            level = {parent for child in level for parent in parents[child]} - lineage
            lineage |= level
        lineages[ref] = Lineage(lineage, all(parents[last] <= lineage for last in level))
    return lineages
