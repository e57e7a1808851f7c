"""Findings of checks, as rows: store what a run saw, and count and read what is open."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, Text, and_, case, func, literal, null, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.check.model import Discrepancy, FindingState, FindingType, Run
from sexton.database.engine import Database
from sexton.database.rows import as_rows
from sexton.marks.live import MOST_SHOWN, short_key

_FIELDS = tuple(Discrepancy.model_fields)
_KEY = ["instance", "type", "vault", "key"]


def store_seen(db: Database, c: Connection, run: Run, discrepancies: Sequence[Discrepancy]) -> None:
    """Insert or update a finding for each discrepancy; their types, vaults and keys must differ.

    A finding that had ended is open again, and unproven.
    """
    t = db.t.finding
    # No database column holds NUL; such a key is stored with a replacement character, and is never a candidate.
    # Nor does an index hold a long one: an owner's view may show any text as a key.
    data = (
        d.model_dump(mode="json") | {"key": short_key(d.key.replace("\0", "\ufffd")), "record": d.record[:MOST_SHOWN]}
        for d in discrepancies
    )
    text_columns = dict.fromkeys(("type", "vault", "key", "etag", "written", "record", "detail"), Text())
    rows = as_rows(data, **text_columns, expected=BigInteger(), size=BigInteger())
    now = literal(db.now(c), t.c.first_seen.type)
    constants: dict[str, Any] = {"instance": literal(run.instance), "seen_in": literal(run.id), "first_seen": now}
    columns = [*(value.label(name) for name, value in constants.items()), *(rows.c[name] for name in _FIELDS)]
    insert = upsert(t).from_select([*constants, *_FIELDS], select(*columns))
    c.execute(insert.on_conflict_do_update(index_elements=_KEY, set_=_changes(t, insert.excluded)))


def _changes(t: Table, new: Any) -> dict[str, Any]:
    """Return what becomes of a finding that is seen again; ``new``: the row that would be inserted."""
    # The repair of an orphan is a mark, and the orphan is seen until it is deleted; other repairs have failed.
    has_ended = or_(
        t.c.state == FindingState.GONE, and_(t.c.state == FindingState.REPAIRED, t.c.type != FindingType.ORPHAN)
    )
    # Another object under the same key is another finding: it is not proven yet.
    is_other_object = or_(t.c.etag != new.etag, t.c.written != new.written, t.c.size.is_distinct_from(new.size))
    starts_over = or_(has_ended, and_(is_other_object, t.c.state != FindingState.ACCEPTED))
    values = {name: new[name] for name in ("expected", "size", "etag", "written", "record", "detail", "seen_in")}
    for name in ("proven_at", "confirmed_at", "proven_in"):
        values[name] = case((starts_over, null()), else_=t.c[name])
    values["state"] = case((starts_over, FindingState.OPEN.value), else_=t.c.state)
    values["first_seen"] = case((starts_over, new.first_seen), else_=t.c.first_seen)
    return values


def is_repairable(db: Database, instance: str, type_: FindingType, key_prefix: str = "") -> ColumnElement[bool]:
    """Return the condition that a finding of this type is open and confirmed, and that its key begins with a prefix."""
    t = db.t.finding
    confirmed = and_(
        t.c.instance == instance, t.c.type == type_, t.c.state == FindingState.OPEN, t.c.confirmed_at.is_not(None)
    )
    if not key_prefix:
        return confirmed
    return and_(confirmed, func.substr(t.c.key, 1, len(key_prefix)) == key_prefix)  # never LIKE: it may contain % and _


def open_counts(db: Database, c: Connection, instance: str) -> list[tuple[str, int, int]]:
    """Return (type, open findings, confirmed ones among them), by type."""
    t = db.t.finding
    is_open = and_(t.c.instance == instance, t.c.state == FindingState.OPEN)
    counts = select(t.c.type, func.count(), func.count(t.c.confirmed_at)).where(is_open).group_by(t.c.type)
    return [(row[0], row[1], row[2]) for row in c.execute(counts.order_by(t.c.type))]
