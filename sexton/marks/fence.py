"""The condition under which a batch's worker may write: its lease epoch, attempt and opening are still the latest."""

from sqlalchemy import Connection, and_, select, update

from sexton.db.engine import Database
from sexton.lease.port import LeaseLost
from sexton.marks.model import Hand


def prove(db: Database, connection: Connection, hand: Hand, *, now: int | None = None) -> None:
    """Lock the batch row and check epoch, attempt and opening; with ``now``, also that the lease has not expired.

    A fact about a deleted file may be written after expiry as long as nobody took over; a claim may not.

    Raises:
        LeaseLost: a newer attempt or a newer epoch works here; the transaction must end without effect.
    """
    batch, lease = db.t.batch, db.t.lease
    mine = and_(
        batch.c.id == hand.batch,
        batch.c.lease_epoch == hand.lease.epoch,
        batch.c.attempt == hand.attempt,
        batch.c.opens == hand.opens,
    )
    if connection.execute(update(batch).where(mine).values(attempt=hand.attempt)).rowcount != 1:
        raise LeaseLost(f"batch {hand.batch} was taken over by a newer attempt or lease")
    held = connection.execute(
        select(lease.c.epoch, lease.c.owner, lease.c.state, lease.c.expires_at).where(
            lease.c.instance == hand.instance, lease.c.job == hand.lease.job
        )
    ).one_or_none()
    ours = held is not None and held.state == "BUSY" and held.owner == hand.lease.owner
    if held is None or not ours or held.epoch != hand.lease.epoch or (now is not None and held.expires_at <= now):
        raise LeaseLost(f"the lease on {hand.instance} (epoch {hand.lease.epoch}) has expired or was taken over")
