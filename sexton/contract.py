"""The functions that an owner's Python code calls inside its own transactions: prepare, commit, mark and undrop.

Every function takes the owner's connection (of psycopg 3, or a SQLAlchemy ``Connection`` over it), works in its open
transaction, and calls the functions of schema ``sexton``, as any language can. It never commits: the owner does. When a
function raises, roll back::

    with psycopg.connect("postgresql://shop_app@db/shop") as db:
        db.execute("DELETE FROM tables WHERE id = 't17'")
        contract.mark(db, "shop", "dropped", [NewMark(id="t17", vault="disk", prefix="data/t17/")])
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from pydantic import ConfigDict
from sqlalchemy import Connection

from sexton.database.contract_errors import (
    AlreadyMarked,
    Collected,
    ContractError,
    Gone,
    InstanceNotRegistered,
    NotFirst,
    Refused,
    check_text,
    translate_errors,
)
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message

__all__ = [
    "AlreadyMarked",
    "Collected",
    "ContractError",
    "Gone",
    "InstanceNotRegistered",
    "NewMark",
    "NotFirst",
    "Refused",
    "commit",
    "mark",
    "prepare",
    "undrop",
]

OwnerConnection = Connection | psycopg.Connection[Any]
DRIVERS = ("psycopg", "psycopg_async")
"""The names under which SQLAlchemy knows psycopg 3."""
MAX_TTL_SECONDS = 366 * 86_400
MAX_BYTES = 2**50
MAX_EXTRA_RETENTION_SECONDS = 10 * 365 * 86_400


class NewMark(Message):
    """An object of the owner that became garbage. Give exactly one of ``prefix`` and ``keys``, relative to the vault.

    ``vault`` is None only where the owner names the vaults when the mark is due.

    ``bytes`` is the owner's estimate of what the deletion frees. ``parent`` is the (kind, id) of the object to which it
    belongs: a hold on the parent applies to it too, and ``sexton hold add --table ID`` means ``("table", ID)``.
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


def prepare(
    connection: OwnerConnection,
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

    Raises:
        Collected: a claimed prefix covers one of the prefixes; what is written below it is deleted.
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
    arguments: tuple[Any, ...] = (instance, owner_txn, list(ids), vault, list(prefixes), txn_ttl_seconds)
    call = "SELECT sexton.prepare(%s, %s, %s::text[], %s, %s::text[], make_interval(secs => %s)"
    if parents is not None:
        arguments, call = (*arguments, kind, list(parent_ids)), f"{call}, %s, %s::text[]"
    _execute(connection, f"{call})", arguments)


def commit(connection: OwnerConnection, instance: str, ids: Iterable[str]) -> None:
    """Remove the prepared marks of rowsets that this transaction makes visible: the metadata commit *is* this removal.

    Raises:
        Collected: one of them is fenced, claimed or deleted, or a prefix above it was claimed; the whole transaction
            must roll back.
    """
    _execute(connection, "SELECT sexton.commit(%s, %s::text[])", (instance, sorted(set(ids))))
    reached("commit.deleted")


def mark(connection: OwnerConnection, instance: str, kind: str, marks: Iterable[NewMark]) -> int:
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
    placeholders = ", ".join(["%s"] * 5 + ["%s::jsonb"] + ["%s"] * 5)
    _execute(connection, f"INSERT INTO sexton.mark ({names}) VALUES ({placeholders})", rows)
    return len(rows)


def undrop(connection: OwnerConnection, instance: str, kind: str, ids: Iterable[str]) -> int:
    """Remove marks in the transaction that references their objects again, before all else that it writes; count them.

    Raises:
        Refused: one is claimed, deleted or not marked, or its ancestor is marked; nothing was changed.
        NotFirst: the transaction has written already.
    """
    unique_ids = sorted(set(ids))
    _execute(connection, "SELECT sexton.undrop(%s, %s, %s::text[])", (instance, kind, unique_ids))
    reached("undrop.deleted")
    return len(unique_ids)


def _execute(connection: OwnerConnection, statement: str, parameters: tuple[Any, ...] | list[Any]) -> None:
    """Execute a statement; once for each tuple, where the parameters are a list of them."""
    with translate_errors():
        if isinstance(connection, Connection) and connection.engine.driver in DRIVERS:
            connection.exec_driver_sql(statement, parameters)
        elif not isinstance(connection, psycopg.Connection):
            raise BadInput("the contract needs a connection of psycopg 3 to PostgreSQL, or one of SQLAlchemy over it")
        elif isinstance(parameters, list):
            connection.cursor().executemany(statement.encode(), parameters)
        else:
            connection.execute(statement.encode(), parameters)
