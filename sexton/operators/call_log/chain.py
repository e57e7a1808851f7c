"""Append rows to the log of calls, each with the hash of the row before it, and delete the oldest.

Writers lock the one row of ``call_head`` and commit soon after: ids have no gap, and appear in their order. A row and
the new head are one transaction, so that a crash leaves a whole chain.
"""

from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, literal_column, select, update

from sexton.database.engine import Database
from sexton.kernel.crash_points import reached
from sexton.operators.call_log.errors import CallLogBroken
from sexton.operators.call_log.model import CallRecord, CallRow, ChainHead

TEXT_CHARACTERS = 500
"""The longest text that is stored of a field."""
TEXTS = frozenset({"who", "source", "action", "instance", "subject", "outcome", "reason"})


def append(db: Database, c: Connection, call: CallRecord, begun_id: int | None = None) -> int:
    """Append a row in the caller's transaction, which should end soon, and return its number.

    Args:
        db: the database.
        c: a connection of ``db.write()``.
        call: what happened; its number, time and role are those of this moment.
        begun_id: the first row of the same call; None: this is the first.

    Raises:
        CallLogBroken: there is no head.
    """
    t, head = db.t, _locked_head(db, c)
    row = CallRow(
        **storable(call).model_dump(include=set(TEXTS)),
        id=head.id + 1,
        at=db.now(c),
        role=str(c.execute(select(literal_column("session_user"))).scalar_one()),
        times=call.times,
        begun_id=begun_id,
        previous=head.hash,
    )
    row = row.model_copy(update={"hash": row.digest()})
    c.execute(insert(t.call).values(**row.model_dump()))
    reached("call.appended")
    c.execute(update(t.call_head).values(id=row.id, hash=row.hash))
    return row.id


def head_of(db: Database, c: Connection) -> ChainHead:
    """Return the head of the chain, as the transaction sees it, or raise ``CallLogBroken``."""
    return _read_head(c, select(db.t.call_head))


def trim(db: Database, c: Connection, before: int, most: int) -> int:
    """Delete the oldest rows, at most ``most``, up to the first that is not older than ``before`` (ms since 1970).

    The head keeps the hash of the last deleted row, so that the rest can still be verified. Returns the number.
    """
    t = db.t.call
    head = _locked_head(db, c)
    end = min(head.id, head.trimmed_id + most)
    among_oldest = t.c.id.between(head.trimmed_id + 1, end)
    first_young = c.execute(select(func.min(t.c.id)).where(among_oldest, t.c.at >= before)).scalar_one()
    last = end if first_young is None else first_young - 1
    if last <= head.trimmed_id:
        return 0
    hash_ = c.execute(select(t.c.hash).where(t.c.id == last)).scalar_one_or_none()
    if hash_ is None:
        return 0  # a row is missing: verify names it
    deleted: int = c.execute(delete(t).where(t.c.id <= last)).rowcount
    c.execute(update(db.t.call_head).values(trimmed_id=last, trimmed_hash=hash_))
    return deleted


def storable(call: CallRecord) -> CallRecord:
    """Return the call with texts that a database can store: no call is refused because of its reason or subject."""
    texts = {name: getattr(call, name).replace("\0", "").encode(errors="replace").decode() for name in TEXTS}
    return call.model_copy(update={name: text[:TEXT_CHARACTERS] for name, text in texts.items()})


def _locked_head(db: Database, c: Connection) -> ChainHead:
    return _read_head(c, select(db.t.call_head).with_for_update())


def _read_head(c: Connection, query: Select[Any]) -> ChainHead:
    row = c.execute(query).one_or_none()
    if row is None:
        raise CallLogBroken
    return ChainHead(**row._mapping)
