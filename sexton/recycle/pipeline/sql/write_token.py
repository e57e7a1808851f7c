"""The condition under which a batch's worker may write: its lease epoch, attempt and opening are still the latest."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, and_, bindparam, select, update

from sexton.database.engine import Database
from sexton.database.tables import Tables, build
from sexton.marks.lease_port import LeaseLost
from sexton.marks.model import WriteToken


def prove(
    db: Database, connection: Connection, token: WriteToken, *, now: int | None = None, shared: bool = False
) -> None:
    """Lock the batch row and check epoch, attempt and opening; with ``now``, also that the lease has not expired.

    A fact about a deleted file may be written after expiry as long as nobody took over; a claim may not. ``shared``:
    others of the same hand may write at the same time, each about files of its own; who takes over waits for all.

    Raises:
        LeaseLost: a newer attempt or a newer epoch works here; the transaction must end without effect.
    """
    lock, share, find = _statements(db.dialect)
    given = {"of": token.batch, "in_epoch": token.lease.epoch, "tried": token.attempt, "opened": token.opens}
    ours = connection.execute(share, given).first() if shared else connection.execute(lock, given).rowcount == 1
    if not ours:
        raise LeaseLost(f"batch {token.batch} was taken over by a newer attempt or lease")
    held = connection.execute(find, {"of": token.instance, "for_job": token.lease.job}).one_or_none()
    held_by_us = held is not None and held.state == "BUSY" and held.owner == token.lease.owner
    if (
        held is None
        or not held_by_us
        or held.epoch != token.lease.epoch
        or (now is not None and held.expires_at <= now)
    ):
        raise LeaseLost(f"the lease on {token.instance} (epoch {token.lease.epoch}) has expired or was taken over")


@cache  # asked before every write of a batch: what is asked is made once
def _statements(dialect: str) -> tuple[Any, Any, Any]:
    t: Tables = build(dialect)
    batch, lease = t.batch, t.lease
    mine = and_(
        batch.c.id == bindparam("of"),
        batch.c.lease_epoch == bindparam("in_epoch"),
        batch.c.attempt == bindparam("tried"),
        batch.c.opens == bindparam("opened"),
    )
    its = and_(lease.c.instance == bindparam("of"), lease.c.job == bindparam("for_job"))
    held = select(lease.c.epoch, lease.c.owner, lease.c.state, lease.c.expires_at).where(its)
    lock = update(batch).where(mine).values(attempt=bindparam("tried"))
    return lock, select(batch.c.id).where(mine).with_for_update(read=True), held
