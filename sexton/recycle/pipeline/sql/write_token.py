"""Verify a write token: its lease epoch, attempt and opening of the batch are still the latest."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, select

from sexton.database.engine import Database, now_column
from sexton.database.tables import TABLES
from sexton.marks.file_results import UNTRIED, FileResults
from sexton.marks.lease import LeaseLost, LeaseState
from sexton.marks.model import WriteToken


def verify(connection: Connection, token: WriteToken, *, now: int | None = None, shared: bool = False) -> None:
    """Lock the batch row and check epoch, attempt and opening; with ``now``, also that the lease has not expired.

    On PostgreSQL a take-over takes the row FOR UPDATE, a write FOR NO KEY UPDATE and a ``shared`` write FOR KEY SHARE:
    only the take-over waits for shared writes, and they for it.

    An outcome of a delete may be written after expiry as long as no newer attempt took over; a claim may not.
    ``shared``: threads with the same token may write at the same time, each about its own files.

    Raises:
        LeaseLost: a newer attempt or a newer epoch works here; the transaction must end without effect.
    """
    statements = _statements()
    find_batch = statements.share_batch if shared else statements.lock_batch
    if connection.execute(find_batch, _parameters(token)).first() is None:
        raise LeaseLost(f"batch {token.batch} was taken over by a newer attempt or lease")
    # A statement of its own: it sees what was committed while this one waited for the batch's row.
    of_lease = {"of_instance": token.instance, "for_job": token.lease.job}
    _check_lease(connection.execute(statements.find_lease, of_lease).one_or_none(), token, now)


def ensure_latest(db: Database, token: WriteToken, files: Sequence[int]) -> None:
    """Check epoch, attempt and opening without a lock, just before a request that cannot be called back.

    ``files``: the numbers of the files that the request deletes, all of one list. Spark may run a task twice, with one
    token: files of the slower one are done already, and their marks may be settled.

    Raises:
        LeaseLost: a newer attempt or a newer epoch works here, the lease has expired, or a file was tried.
    """
    parameters = {**_parameters(token), "file": files[0], "of_instance": token.instance, "for_job": token.lease.job}
    with db.look_up() as connection:
        row = connection.execute(_statements().find_file, parameters).first()
    codes = b"" if row is None else FileResults.decode(row.results).codes
    if row is None or any(codes[file - row.first] != UNTRIED for file in files):
        raise LeaseLost(f"batch {token.batch} was taken over by a newer attempt or lease, or its files were tried")
    _check_lease(row, token, row.now)


def _parameters(token: WriteToken) -> dict[str, int]:
    return {"of": token.batch, "in_epoch": token.lease.epoch, "tried": token.attempt, "opened": token.open_count}


def _check_lease(lease: Any, token: WriteToken, now: int | None) -> None:
    """Raise ``LeaseLost`` unless the row of the lease is the token's; with ``now``, also if it has expired. Pure."""
    if (
        lease is None
        or (lease.state, lease.owner, lease.epoch) != (LeaseState.BUSY, token.lease.owner, token.lease.epoch)
        or (now is not None and lease.expires_at <= now)
    ):
        raise LeaseLost(f"the lease on {token.instance} (epoch {token.lease.epoch}) has expired or was taken over")


class _Statements(NamedTuple):
    """``find_file`` returns the list of one file, and the lease; the next two lock the batch's row.

    These three return nothing if the token is not the latest of its batch.
    """

    find_file: Any
    lock_batch: Any
    share_batch: Any
    find_lease: Any


@cache  # used before every write of a batch: the statements are built once
def _statements() -> _Statements:
    batch, lease, files = TABLES.batch, TABLES.lease, TABLES.file_list
    of_token = and_(
        batch.c.id == bindparam("of"),
        batch.c.lease_epoch == bindparam("in_epoch"),
        batch.c.attempt == bindparam("tried"),
        batch.c.open_count == bindparam("opened"),
    )
    is_lease = and_(lease.c.instance == bindparam("of_instance"), lease.c.job == bindparam("for_job"))
    of_lease = (lease.c.epoch, lease.c.owner, lease.c.state, lease.c.expires_at)
    find_batch = select(batch.c.id).where(of_token)
    may_have_file = and_(files.c.batch == bindparam("of"), files.c.last >= bindparam("file"))
    now = now_column().label("now")
    find_file = select(files.c.first, files.c.results, now, *of_lease).select_from(files.join(lease, is_lease))
    find_file = find_file.where(may_have_file, files.c.first <= bindparam("file"), exists().where(of_token))
    return _Statements(
        find_file=find_file.order_by(files.c.last).limit(1),
        lock_batch=find_batch.with_for_update(key_share=True),
        share_batch=find_batch.with_for_update(read=True, key_share=True),
        find_lease=select(*of_lease).where(is_lease),
    )
