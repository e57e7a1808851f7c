"""Walk the chain of the log of calls, and name the first row that was changed, removed or inserted."""

from collections.abc import Iterator

from sqlalchemy import Connection, select

from sexton.database.engine import Database
from sexton.operators.call_log.chain import head_of
from sexton.operators.call_log.model import CallRow, ChainFault, ChainHead, ChainReport

PAGE = 1_000
LOWEST = -(2**63)


def verify(db: Database, newest: int | None = None) -> ChainReport:
    """Compare the rows of the log with their hashes, and the last with the head.

    Args:
        db: the database.
        newest: only so many of the newest rows; None: all.
    """
    with db.snapshot() as c:
        head = head_of(db, c)
        first = head.trimmed_id + 1 if newest is None else max(head.trimmed_id + 1, head.id - newest + 1)
        hash_before = head.trimmed_hash if first == head.trimmed_id + 1 else _hash_of(db, c, first - 1)
        if hash_before is None:
            return _report(first, head, 0, ChainFault(row=first - 1, what="was removed"))
        rows, previous = 0, hash_before
        for row in _rows(db, c, LOWEST if newest is None else first - 1):
            fault = check_row(row, first + rows, previous, head)
            if fault is not None:
                return _report(first, head, rows, fault)
            rows, previous = rows + 1, row.hash
    return _report(first, head, rows, check_end(first + rows, previous, head))


def check_row(row: CallRow, expected: int, previous: str, head: ChainHead) -> ChainFault | None:
    """Return why a row does not follow the rows before it. Pure.

    Args:
        row: as it is stored.
        expected: the number that follows those of the rows before.
        previous: the hash of the row before.
        head: of the chain.
    """
    if row.id > head.id or row.id < expected:
        return ChainFault(row=row.id, what="was inserted")
    if row.id > expected:
        return ChainFault(row=expected, what="was removed")
    if row.digest() != row.hash:
        return ChainFault(row=row.id, what="was changed")
    if row.previous != previous:
        before = max(row.id - 1, head.trimmed_id + 1)
        return ChainFault(row=before, what="was changed, and its hash with it")
    return None


def check_end(expected: int, previous: str, head: ChainHead) -> ChainFault | None:
    """Return how the last row differs from the head; ``expected``: the number after the last row. Pure."""
    if expected <= head.id:
        return ChainFault(row=expected, what="was removed")
    if previous != head.hash:
        return ChainFault(row=head.id, what="was changed, and its hash with it")
    return None


def _rows(db: Database, c: Connection, after: int) -> Iterator[CallRow]:
    t = db.t.call
    while True:
        page = c.execute(select(t).where(t.c.id > after).order_by(t.c.id).limit(PAGE)).all()
        yield from (CallRow(**row._mapping) for row in page)
        if len(page) < PAGE:
            return
        after = page[-1].id


def _hash_of(db: Database, c: Connection, id_: int) -> str | None:
    t = db.t.call
    return c.execute(select(t.c.hash).where(t.c.id == id_)).scalar_one_or_none()


def _report(first: int, head: ChainHead, rows: int, fault: ChainFault | None) -> ChainReport:
    return ChainReport(first=first, last=head.id, rows=rows, fault=fault)
