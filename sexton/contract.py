"""What an owner's Python code calls, inside its own transactions: prepare, commit, mark, undrop, attach.

Every function takes the owner's connection (a SQLAlchemy ``Connection``, or a ``sqlite3.Connection``), works in its
open transaction (on SQLite it begins one where none is open) and never commits: that is the owner's. When one raises,
roll back. On PostgreSQL they call the functions of schema ``sexton``, as any language can; on SQLite this module is
the contract.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from pydantic import ConfigDict
from sqlalchemy import Connection

from sexton.database.contract_errors import (
    AlreadyMarked,
    Busy,
    Collected,
    ContractError,
    Gone,
    InstanceNotRegistered,
    NotFirst,
    Refused,
    check_text,
    typed,
)
from sexton.database.engine import SQLITE_BUSY_SECONDS, SQLITE_NOW
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message

__all__ = [
    "AlreadyMarked",
    "Busy",
    "Collected",
    "ContractError",
    "Gone",
    "InstanceNotRegistered",
    "NewMark",
    "NotFirst",
    "Refused",
    "attach",
    "commit",
    "mark",
    "prepare",
    "undrop",
]

MAX_TTL_SECONDS = 366 * 86_400
MAX_BYTES = 2**50


class NewMark(Message):
    """One thing that became garbage. Name exactly one of ``prefix`` and ``keys``, relative to the vault.

    ``vault`` is None only where the owner tells Sexton the vaults when the mark is due (the catalog's tablets).

    ``bytes`` is what the owner believes it frees; ``parent`` is the (kind, id) because of which it goes: a hold on the
    parent keeps it too, and ``sexton hold table ID`` means ``("table", ID)``. A field of another name is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    vault: str | None
    prefix: str | None = None
    keys: tuple[str, ...] | None = None
    bytes: int = 0
    parent: tuple[str, str] | None = None
    owner_txn: str | None = None


def attach(connection: sqlite3.Connection) -> None:
    """Make a SQLite connection fit to share its file with Sexton, and register ``sexton_now()`` (ms since 1970).

    Raises:
        BadInput: the file has no Sexton schema; run ``sexton init`` on it first.
    """
    if connection.in_transaction:
        raise BadInput("attach a connection before its first transaction")
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={SQLITE_BUSY_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}").close()
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sexton_mark'").fetchone()
    if found is None:
        raise BadInput("this SQLite file has no Sexton tables; run: sexton init")
    connection.create_function("sexton_now", 0, lambda: int(connection.execute(f"SELECT {SQLITE_NOW}").fetchone()[0]))


def prepare(
    connection: Connection | sqlite3.Connection,
    instance: str,
    owner_txn: str,
    ids: Sequence[str],
    vault: str,
    prefixes: Sequence[str],
    txn_ttl_seconds: int,
    parents: tuple[str, Sequence[str]] | None = None,
) -> None:
    """Mark what a load or compaction is about to write. Commit this *before the first PUT*.

    Args:
        connection: in a short transaction of its own.
        instance: the instance.
        owner_txn: the owner's name for the transaction.
        ids: rowset ids, ``[A-Za-z0-9.-]``, at most 128 characters, never used before.
        vault: the vault that will be written to.
        prefixes: one for each id, ending with a separator (not ``[A-Za-z0-9.-]``).
        txn_ttl_seconds: how long the transaction may take at most; after it and the retention the files go.
        parents: a kind, and one id of that kind for each of ``ids``, to which the files belong: a hold on it keeps
            them too.
    """
    kind = parents[0] if parents else None
    above: Sequence[str | None] = parents[1] if parents else [None] * len(ids)
    if not len(ids) == len(prefixes) == len(above):
        raise BadInput("prepare takes one prefix for each id, and one parent where any is given")
    if type(txn_ttl_seconds) is not int:
        raise BadInput(f"txn_ttl_seconds is {txn_ttl_seconds!r}; it must be whole seconds")
    check_text(instance, owner_txn, vault, *ids, *prefixes, *(a for a in above if a is not None))
    if not 0 < txn_ttl_seconds <= MAX_TTL_SECONDS:
        raise BadInput(f"txn_ttl_seconds is {txn_ttl_seconds}; it must be above 0 and at most {MAX_TTL_SECONDS}")
    lite = _begun(connection)
    if lite is None:
        given: tuple[Any, ...] = (instance, owner_txn, list(ids), vault, list(prefixes), txn_ttl_seconds)
        call = "prepare(%s, %s, %s::text[], %s, %s::text[], make_interval(secs => %s)"
        if parents is not None:
            given, call = (*given, kind, list(above)), f"{call}, %s, %s::text[]"
        _call(connection, f"{call})", given)
        return
    named = zip(ids, prefixes, above, strict=True)
    rows = json.dumps([{"id": i, "prefix": p, "parent": a} for i, p, a in named])
    _lite(
        lite,
        "INSERT INTO sexton_mark (instance, kind, id, vault, prefix, owner_txn, parent_kind, parent_id, expires_at) "
        "SELECT ?, 'prepared', json_extract(value, '$.id'), ?, json_extract(value, '$.prefix'), ?, ?, "
        f"json_extract(value, '$.parent'), {SQLITE_NOW} + ? FROM json_each(?)",
        (instance, vault, owner_txn, kind, txn_ttl_seconds * 1000, rows),
    )


def commit(connection: Connection | sqlite3.Connection, instance: str, ids: Iterable[str]) -> None:
    """Remove the prepared marks of what this transaction makes visible: the metadata commit *is* this removal.

    Raises:
        Collected: one of them is claimed or gone; the whole transaction must roll back.
    """
    wanted = sorted(set(ids))
    lite = _begun(connection)
    if lite is None:
        _call(connection, "commit(%s, %s::text[])", (instance, wanted))
        return
    chosen = "instance = ? AND kind = 'prepared' AND id IN (SELECT value FROM json_each(?))"
    given = (instance, json.dumps(wanted))
    _lite(lite, "SAVEPOINT sexton_commit", ())
    removed = _lite(lite, f"DELETE FROM sexton_mark WHERE {chosen} AND state = 'MARKED'", given).rowcount
    reached("commit.deleted")
    lost: list[tuple[str]] = []
    if removed == len(wanted):
        # What a repair took for an orphan and this commit makes visible is none; what it took already is lost.
        orphans = {"i": instance, "ids": given[1]}
        _lite(lite, f"DELETE FROM sexton_mark WHERE {_ORPHANS} AND state = 'MARKED'", orphans)
        lost = _lite(lite, _LOST_AS_ORPHANS, orphans).fetchall()
        if not lost:
            _lite(lite, "RELEASE sexton_commit", ())
            return
    _lite(lite, "ROLLBACK TO sexton_commit", ())
    _lite(lite, "RELEASE sexton_commit", ())
    lost = lost or _lite(lite, _LOST, (given[1], instance, instance)).fetchall()
    raise Collected(f"SX001 collected: {'; '.join(r[0] for r in lost)[:2000]}; roll this commit back")


_ORPHANS = (
    "instance = :i AND kind = 'orphan' AND parent_kind = 'rowset' AND parent_id IN (SELECT value FROM json_each(:ids))"
)
_LOST_AS_ORPHANS = f"""
SELECT parent_id || ' lost a file as orphan ' || id FROM sexton_mark WHERE {_ORPHANS}
UNION ALL SELECT parent_id || ' lost a file as orphan ' || id FROM sexton_mark_history WHERE {_ORPHANS}
"""
_LOST = """
SELECT w.value || CASE
    WHEN m.state = 'FENCED' THEN ' is fenced: a round is about to collect it; unless its transaction was aborted, '
        || 'commit again after that round'
    WHEN m.id IS NOT NULL THEN ' claimed in batch ' || m.batch
    WHEN h.id IS NOT NULL THEN ' gone in batch ' || h.batch
    ELSE ' was never prepared, or is committed already' END
FROM json_each(?) w
LEFT JOIN sexton_mark m ON m.instance = ? AND m.kind = 'prepared' AND m.id = w.value
LEFT JOIN sexton_mark_history h ON h.instance = ? AND h.kind = 'prepared' AND h.id = w.value
WHERE m.id IS NULL OR m.state <> 'MARKED'
"""


def mark(connection: Connection | sqlite3.Connection, instance: str, kind: str, marks: Iterable[NewMark]) -> int:
    """Mark garbage, in the same transaction that un-references it. Return how many.

    An ``INSERT INTO sexton.mark (…) SELECT …`` of the owner's own does the same without sending rows.
    """
    names = "instance, kind, id, vault, prefix, keys, bytes, parent_kind, parent_id, owner_txn"
    rows = []
    for m in marks:
        parent = m.parent or (None, None)
        keys = None if m.keys is None else json.dumps(m.keys)
        check_text(m.id, m.vault or "", m.prefix or "", *(m.keys or ()))
        if m.bytes > MAX_BYTES:
            raise BadInput(f"{m.id}: bytes is {m.bytes}; one mark frees at most 1 PiB ({MAX_BYTES})")
        rows.append((instance, kind, m.id, m.vault, m.prefix, keys, m.bytes, *parent, m.owner_txn))
    if not rows:
        return 0
    lite = _begun(connection)
    if lite is None:
        assert isinstance(connection, Connection)
        places = ", ".join(["%s"] * 5 + ["%s::jsonb"] + ["%s"] * 4)
        with typed():
            connection.exec_driver_sql(f"INSERT INTO sexton.mark ({names}) VALUES ({places})", rows)
        return len(rows)
    with typed():
        lite.executemany(f"INSERT INTO sexton_mark ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return len(rows)


def undrop(connection: Connection | sqlite3.Connection, instance: str, kind: str, ids: Iterable[str]) -> int:
    """Take back marks, in the transaction that re-attaches what they named, before anything it writes.

    Returns:
        How many marks were taken back: all, or it raises.

    Raises:
        Refused: one is claimed, gone or not marked, or its ancestor is marked; everything stays as it was.
        NotFirst: the transaction has written already (PostgreSQL; SQLite has one writer, any order is safe).
    """
    if kind == "prepared":
        raise Refused("SX003 refused: a prepared mark is committed, never undropped")
    wanted = sorted(set(ids))
    lite = _begun(connection)
    if lite is None:
        _call(connection, "undrop(%s, %s, %s::text[])", (instance, kind, wanted))
        return len(wanted)
    # Nothing of another connection can come between the guard and the end: SQLite has one writer.
    guard = "UPDATE sexton_instance_guard SET seq = seq + 1 WHERE instance = ?"
    if _lite(lite, guard, (instance,)).rowcount != 1:
        raise InstanceNotRegistered(f"SX004 unknown instance: {instance}")
    reached("undrop.guarded")
    given = {"i": instance, "k": kind, "ids": json.dumps(wanted)}
    reasons = _lite(lite, _REFUSED, given).fetchall()
    reached("undrop.checked")
    if reasons:
        raise Refused(f"SX003 refused: {'; '.join(r[0] for r in reasons)[:2000]}")
    chosen = "instance = :i AND kind = :k AND state = 'MARKED' AND id IN (SELECT value FROM json_each(:ids))"
    return _lite(lite, f"DELETE FROM sexton_mark WHERE {chosen}", given).rowcount


_REFUSED = """
WITH RECURSIVE up (root, kind, id, depth) AS (
    SELECT m.id, m.parent_kind, m.parent_id, 1 FROM sexton_mark m
    WHERE m.instance = :i AND m.kind = :k AND m.id IN (SELECT value FROM json_each(:ids)) AND m.parent_id IS NOT NULL
    UNION
    SELECT up.root, m.parent_kind, m.parent_id, up.depth + 1 FROM up
    JOIN sexton_mark m ON m.instance = :i AND m.kind = up.kind AND m.id = up.id
    WHERE m.parent_id IS NOT NULL AND up.depth < 16
), down (root, kind, id, depth) AS (
    SELECT value, :k, value, 0 FROM json_each(:ids)
    UNION
    SELECT down.root, m.kind, m.id, down.depth + 1 FROM down
    JOIN sexton_mark m ON m.instance = :i AND m.parent_kind = down.kind AND m.parent_id = down.id
    WHERE down.depth < 16
)
SELECT w.value || CASE
    WHEN m.state = 'CLAIMED' THEN ' is claimed in batch ' || m.batch
    WHEN m.state = 'FENCED' THEN ' is fenced'
    WHEN h.id IS NOT NULL THEN ' is gone'
    ELSE ' is not marked' END
FROM json_each(:ids) w
LEFT JOIN sexton_mark m ON m.instance = :i AND m.kind = :k AND m.id = w.value
LEFT JOIN sexton_mark_history h ON h.instance = :i AND h.kind = :k AND h.id = w.value
WHERE m.id IS NULL OR m.state <> 'MARKED'
UNION ALL
SELECT up.root || ': its ancestor ' || up.kind || ' ' || up.id || ' is marked or gone' FROM up
WHERE NOT (up.kind = :k AND up.id IN (SELECT value FROM json_each(:ids)))
  AND (EXISTS (SELECT 1 FROM sexton_mark m WHERE m.instance = :i AND m.kind = up.kind AND m.id = up.id)
    OR EXISTS (SELECT 1 FROM sexton_mark_history h WHERE h.instance = :i AND h.kind = up.kind AND h.id = up.id))
UNION ALL
SELECT down.root || ': its descendant ' || down.kind || ' ' || down.id || ' is claimed' FROM down
JOIN sexton_mark m ON m.instance = :i AND m.kind = down.kind AND m.id = down.id
WHERE down.depth > 0 AND m.state = 'CLAIMED' AND m.kind NOT IN ('compacted', 'prepared')
UNION ALL
SELECT w.value || ': its descendant ' || h.kind || ' ' || h.id || ' is gone'
FROM json_each(:ids) w
JOIN sexton_mark_history h ON h.instance = :i AND h.parent_kind = :k AND h.parent_id = w.value
    AND h.kind NOT IN ('compacted', 'prepared')
JOIN sexton_mark p ON p.instance = :i AND p.kind = :k AND p.id = w.value AND h.claimed_at >= p.marked_at
"""


def _begun(connection: Connection | sqlite3.Connection) -> sqlite3.Connection | None:
    """Return the SQLite connection inside a transaction, or None for PostgreSQL.

    Python's sqlite3 opens one only at the first write, and an outermost SAVEPOINT would commit when it is released.
    """
    lite = _sqlite(connection)
    if lite is not None and not lite.in_transaction:
        _lite(lite, "BEGIN IMMEDIATE", ())
    return lite


def _sqlite(connection: Connection | sqlite3.Connection) -> sqlite3.Connection | None:
    """Return the SQLite connection under what the owner handed over, or None for PostgreSQL."""
    if isinstance(connection, sqlite3.Connection):
        return connection
    driver: Any = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        return driver
    if connection.dialect.name != "postgresql":
        _unsupported(connection.dialect.name)
    return None


def _unsupported(name: str) -> NoReturn:
    raise BadInput(f"the contract speaks SQLite and PostgreSQL, not {name}")


def _lite(connection: sqlite3.Connection, sql: str, given: Any) -> sqlite3.Cursor:
    with typed():
        return connection.execute(sql, given)
    raise AssertionError("unreachable")


def _call(connection: Any, call: str, given: tuple[Any, ...]) -> None:
    with typed():
        connection.exec_driver_sql(f"SELECT sexton.{call}", given)
