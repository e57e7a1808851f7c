"""The functions that an owner's Python code calls inside its own transactions: prepare, commit, mark, undrop, attach.

Every function takes the owner's connection (a SQLAlchemy ``Connection``, or a ``sqlite3.Connection``) and works in its
open transaction; on SQLite it begins one where none is open. It never commits: the owner does. When a function raises,
roll back. On PostgreSQL the functions call those of schema ``sexton``, as any language can; on SQLite this module is
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
    translate_errors,
)
from sexton.database.contract_sqlite import LOST_AS_ORPHANS, LOST_MARKS, ORPHAN_MARKS, UNDROP_REFUSALS
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
MAX_EXTRA_RETENTION_SECONDS = 10 * 365 * 86_400


class NewMark(Message):
    """An object of the owner that became garbage. Give exactly one of ``prefix`` and ``keys``, relative to the vault.

    ``vault`` is None only where the owner names the vaults when the mark is due.

    ``bytes`` is the owner's estimate of what the deletion frees. ``parent`` is the (kind, id) of the object to which it
    belongs: a hold on the parent applies to it too, and ``sexton hold add table ID`` means ``("table", ID)``.
    ``extra_retention_seconds``: so long the mark waits before the retention of its kind starts. Fields with other names
    are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    vault: str | None
    prefix: str | None = None
    keys: tuple[str, ...] | None = None
    bytes: int = 0
    parent: tuple[str, str] | None = None
    owner_txn: str | None = None
    extra_retention_seconds: int = 0


def attach(connection: sqlite3.Connection) -> None:
    """Configure a SQLite connection to share its file with Sexton, and register ``sexton_now()`` (ms since 1970).

    Raises:
        BadInput: a transaction is open, or the file has no Sexton tables: run ``sexton init`` on it first.
    """
    if connection.in_transaction:
        raise BadInput("attach a connection before its first transaction")
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={SQLITE_BUSY_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}").close()
    mark_table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sexton_mark'").fetchone()
    if mark_table is None:
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
    """Mark the rowsets that a load or compaction is about to write. Commit this *before the first PUT*.

    Args:
        connection: in a short transaction of its own.
        instance: the instance.
        owner_txn: the owner's name for the transaction.
        ids: rowset ids, ``[A-Za-z0-9.-]``, at most 128 characters, never used before.
        vault: the vault in which they will be written.
        prefixes: one for each id, ending with a separator (not ``[A-Za-z0-9.-]``).
        txn_ttl_seconds: how long the transaction may take at most; after that and the retention its files are deleted.
        parents: a kind, and one id of that kind for each of ``ids``, to which the files belong: a hold on that parent
            applies to them too.
    """
    kind = parents[0] if parents else None
    parent_ids: Sequence[str | None] = parents[1] if parents else [None] * len(ids)
    if not len(ids) == len(prefixes) == len(parent_ids):
        raise BadInput("prepare takes one prefix for each id, and one parent for each id if any is given")
    if type(txn_ttl_seconds) is not int:
        raise BadInput(f"txn_ttl_seconds is {txn_ttl_seconds!r}; it must be whole seconds")
    check_text(
        instance, owner_txn, vault, *ids, *prefixes, *(parent_id for parent_id in parent_ids if parent_id is not None)
    )
    if not 0 < txn_ttl_seconds <= MAX_TTL_SECONDS:
        raise BadInput(f"txn_ttl_seconds is {txn_ttl_seconds}; it must be above 0 and at most {MAX_TTL_SECONDS}")
    lite = _begun(connection)
    if lite is None:
        arguments: tuple[Any, ...] = (instance, owner_txn, list(ids), vault, list(prefixes), txn_ttl_seconds)
        call = "prepare(%s, %s, %s::text[], %s, %s::text[], make_interval(secs => %s)"
        if parents is not None:
            arguments, call = (*arguments, kind, list(parent_ids)), f"{call}, %s, %s::text[]"
        _call(connection, f"{call})", arguments)
        return
    marks = zip(ids, prefixes, parent_ids, strict=True)
    rows = json.dumps([{"id": id_, "prefix": prefix, "parent": parent_id} for id_, prefix, parent_id in marks])
    _lite(
        lite,
        "INSERT INTO sexton_mark (instance, kind, id, vault, prefix, owner_txn, parent_kind, parent_id, expires_at) "
        "SELECT ?, 'prepared', json_extract(value, '$.id'), ?, json_extract(value, '$.prefix'), ?, ?, "
        f"json_extract(value, '$.parent'), {SQLITE_NOW} + ? FROM json_each(?)",
        (instance, vault, owner_txn, kind, txn_ttl_seconds * 1000, rows),
    )


def commit(connection: Connection | sqlite3.Connection, instance: str, ids: Iterable[str]) -> None:
    """Remove the prepared marks of rowsets that this transaction makes visible: the metadata commit *is* this removal.

    Raises:
        Collected: one of them is fenced, claimed or deleted; the whole transaction must roll back.
    """
    unique_ids = sorted(set(ids))
    lite = _begun(connection)
    if lite is None:
        _call(connection, "commit(%s, %s::text[])", (instance, unique_ids))
        return
    ids_json = json.dumps(unique_ids)
    prepared = "instance = ? AND kind = 'prepared' AND id IN (SELECT value FROM json_each(?))"
    _lite(lite, "SAVEPOINT sexton_commit", ())
    deletion = f"DELETE FROM sexton_mark WHERE {prepared} AND state = 'MARKED'"
    removed = _lite(lite, deletion, (instance, ids_json)).rowcount
    reached("commit.deleted")
    lost: list[tuple[str]] = []
    if removed == len(unique_ids):
        # A file that a repair marked as an orphan is none once this commit makes it visible; a claimed one is lost.
        orphans = {"i": instance, "ids": ids_json}
        _lite(lite, f"DELETE FROM sexton_mark WHERE {ORPHAN_MARKS} AND state = 'MARKED'", orphans)
        lost = _lite(lite, LOST_AS_ORPHANS, orphans).fetchall()
        if not lost:
            _lite(lite, "RELEASE sexton_commit", ())
            return
    _lite(lite, "ROLLBACK TO sexton_commit", ())
    _lite(lite, "RELEASE sexton_commit", ())
    lost = lost or _lite(lite, LOST_MARKS, (ids_json, instance, instance)).fetchall()
    raise Collected(f"SX001 collected: {'; '.join(row[0] for row in lost)[:2000]}; roll this commit back")


def mark(connection: Connection | sqlite3.Connection, instance: str, kind: str, marks: Iterable[NewMark]) -> int:
    """Mark garbage in the same transaction that removes the references to it. Return how many marks were made.

    The owner may run ``INSERT INTO sexton.mark (…) SELECT …`` instead, which does the same without sending rows.
    """
    names = "instance, kind, id, vault, prefix, keys, bytes, parent_kind, parent_id, owner_txn, extra_retention_seconds"
    rows = []
    for m in marks:
        parent = m.parent or (None, None)
        keys = None if m.keys is None else json.dumps(m.keys)
        check_text(m.id, m.vault or "", m.prefix or "", *(m.keys or ()))
        if m.bytes > MAX_BYTES:
            raise BadInput(f"{m.id}: bytes is {m.bytes}; one mark frees at most 1 PiB ({MAX_BYTES})")
        if not 0 <= m.extra_retention_seconds <= MAX_EXTRA_RETENTION_SECONDS:
            raise BadInput(
                f"{m.id}: extra_retention_seconds is {m.extra_retention_seconds}; it must be 0 to "
                f"{MAX_EXTRA_RETENTION_SECONDS} (10 years)"
            )
        waits = m.extra_retention_seconds
        rows.append((instance, kind, m.id, m.vault, m.prefix, keys, m.bytes, *parent, m.owner_txn, waits))
    if not rows:
        return 0
    lite = _begun(connection)
    if lite is None:
        assert isinstance(connection, Connection)
        placeholders = ", ".join(["%s"] * 5 + ["%s::jsonb"] + ["%s"] * 5)
        with translate_errors():
            connection.exec_driver_sql(f"INSERT INTO sexton.mark ({names}) VALUES ({placeholders})", rows)
        return len(rows)
    with translate_errors():
        lite.executemany(f"INSERT INTO sexton_mark ({names}) VALUES ({', '.join('?' * 11)})", rows)
    return len(rows)


def undrop(connection: Connection | sqlite3.Connection, instance: str, kind: str, ids: Iterable[str]) -> int:
    """Remove marks in the transaction that references their objects again, before anything else that it writes.

    Returns:
        How many marks were removed: all, or the function raises.

    Raises:
        Refused: one is claimed, deleted or not marked, or its ancestor is marked; nothing was changed.
        NotFirst: the transaction has written already (PostgreSQL; SQLite has one writer, so any order is safe).
    """
    if kind == "prepared":
        raise Refused("SX003 refused: a prepared mark is committed, never undropped")
    unique_ids = sorted(set(ids))
    lite = _begun(connection)
    if lite is None:
        _call(connection, "undrop(%s, %s, %s::text[])", (instance, kind, unique_ids))
        return len(unique_ids)
    # No other connection can write between the guard and the end of the transaction: SQLite has one writer.
    guard = "UPDATE sexton_instance_guard SET seq = seq + 1 WHERE instance = ?"
    if _lite(lite, guard, (instance,)).rowcount != 1:
        raise InstanceNotRegistered(f"SX004 unknown instance: {instance}")
    reached("undrop.guarded")
    parameters = {"i": instance, "k": kind, "ids": json.dumps(unique_ids)}
    reasons = _lite(lite, UNDROP_REFUSALS, parameters).fetchall()
    reached("undrop.checked")
    if reasons:
        raise Refused(f"SX003 refused: {'; '.join(row[0] for row in reasons)[:2000]}")
    undropped = "instance = :i AND kind = :k AND state = 'MARKED' AND id IN (SELECT value FROM json_each(:ids))"
    return _lite(lite, f"DELETE FROM sexton_mark WHERE {undropped}", parameters).rowcount


def _begun(connection: Connection | sqlite3.Connection) -> sqlite3.Connection | None:
    """Return the SQLite connection inside a transaction, or None for PostgreSQL.

    Python's sqlite3 opens a transaction only at the first write, and releasing an outermost SAVEPOINT would commit.
    """
    lite = _sqlite(connection)
    if lite is not None and not lite.in_transaction:
        _lite(lite, "BEGIN IMMEDIATE", ())
    return lite


def _sqlite(connection: Connection | sqlite3.Connection) -> sqlite3.Connection | None:
    """Return the SQLite connection of the owner's connection, or None for PostgreSQL."""
    if isinstance(connection, sqlite3.Connection):
        return connection
    driver: Any = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        return driver
    if connection.dialect.name != "postgresql":
        _unsupported(connection.dialect.name)
    return None


def _unsupported(name: str) -> NoReturn:
    raise BadInput(f"the contract supports SQLite and PostgreSQL, not {name}")


def _lite(connection: sqlite3.Connection, sql: str, parameters: Any) -> sqlite3.Cursor:
    with translate_errors():
        return connection.execute(sql, parameters)
    raise AssertionError("unreachable")


def _call(connection: Any, call: str, arguments: tuple[Any, ...]) -> None:
    with translate_errors():
        connection.exec_driver_sql(f"SELECT sexton.{call}", arguments)
