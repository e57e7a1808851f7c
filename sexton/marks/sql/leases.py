"""Store leases: one round at a time works on an instance, and the number of concurrent rounds is limited.

The lease saves work; the claim is what is safe (docs/concepts.md). Any run may acquire an expired lease, which raises
the epoch; a run with the old epoch is refused at its next claim, outcome or removal.
"""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, func, insert, select, update

from sexton.database.engine import Database, now_once
from sexton.database.guard import EVERYTHING, deciding
from sexton.kernel.crash_points import reached
from sexton.marks.model import Lease, LeaseBusy, LeaseLost, LeaseState, NoFreeSlot
from sexton.storage.model import IN_FLIGHT_SECONDS

TTL_SECONDS = 60
EPOCHS_OF_A_COPY = 2**20
"""More epochs than a newer copy of the database has used: one for each round, pause and backoff of an instance."""
LONGEST_WAIT_SECONDS = 600
"""A take-over that is later than this from now was recorded while the database's clock was ahead."""


class LeaseStore:
    """Leases as rows, on the database's clock."""

    def __init__(self, db: Database, at_once: int | None = None) -> None:
        """``at_once``: leases of one job over all workers (``recycle_concurrency``); None: no limit."""
        self._db = db
        self._at_once = at_once

    def acquire(self, instance: str, job: str, owner: str) -> Lease:
        """Acquire the lease for ``owner`` (a run id); the same owner keeps its epoch while the lease is valid.

        Raises:
            LeaseBusy: another run has it.
            NoFreeSlot: as many leases are in use as are allowed at once.
            UnknownInstance: no such instance.
        """
        lease = self._db.t.lease
        of_job = and_(lease.c.instance == instance, lease.c.job == job)
        with deciding(self._db, EVERYTHING, instance) as c:  # two runs must not count leases at the same time
            now = self._db.now(c)
            row = c.execute(select(lease).where(of_job)).one_or_none()
            if self._at_once is not None:
                others = and_(busy(lease, job), lease.c.instance != instance)
                in_use = int(c.execute(select(func.count()).where(others)).scalar_one())
                if in_use >= self._at_once:
                    limit = f"recycle_concurrency allows {self._at_once}; {instance} waits for a slot"
                    raise NoFreeSlot(f"{in_use} rounds are running, {limit}")
            if row is None:
                c.execute(insert(lease).values(instance=instance, job=job))
            epoch = 1 if row is None else self._next_epoch(row, owner, now)
            expires = now + TTL_SECONDS * 1000
            values = {"owner": owner, "epoch": epoch, "acquired_at": now, "expires_at": expires}
            c.execute(update(lease).where(of_job).values(state=LeaseState.BUSY, **values))
        reached("lease.acquired")
        return Lease(instance=instance, job=job, owner=owner, epoch=epoch)

    def _next_epoch(self, row: Any, owner: str, now: int) -> int:
        """Return a new epoch, or the present one if ``owner`` has the lease; raise ``LeaseBusy`` if another has."""
        valid = row.state == LeaseState.BUSY and now < row.expires_at <= now + 2 * TTL_SECONDS * 1000
        if not valid:
            return int(row.epoch) + 1
        if row.owner != owner:
            seconds = (row.expires_at - now) // 1000
            raise LeaseBusy(f"a round of {row.instance} is running ({row.owner}); its lease ends in {seconds} s")
        return int(row.epoch)

    def renew(self, lease: Lease) -> None:
        """Verify that the lease is still valid, and move its end forward.

        Raises:
            LeaseLost: it expired or was taken over; it can then only be acquired again, with a new epoch.
        """
        row = self._db.t.lease
        with self._db.write() as c:
            now = self._db.now(c)
            renewed = c.execute(
                update(row)
                .where(is_lease(row, lease), row.c.expires_at > now)
                .values(expires_at=now + TTL_SECONDS * 1000)
            ).rowcount
        if renewed != 1:
            raise LeaseLost(f"the lease on {lease.instance} (epoch {lease.epoch}) has expired or was taken over")

    def verify(self, lease: Lease, connection: Connection) -> None:
        """Check the lease inside a transaction of its user; another run acquires it only after this transaction.

        Raises:
            LeaseLost: it has expired, or another run has it; the transaction must end without effect.
        """
        row = self._db.t.lease
        valid = select(row.c.epoch).where(is_lease(row, lease), row.c.expires_at > self._db.now(connection))
        if connection.execute(valid.with_for_update(read=True)).first() is None:
            raise LeaseLost(f"the lease on {lease.instance} (epoch {lease.epoch}) has expired or was taken over")

    def free(self, lease: Lease) -> None:
        """Release the lease; without effect if it was lost."""
        row = self._db.t.lease
        with self._db.write() as c:
            c.execute(update(row).where(is_lease(row, lease)).values(state=LeaseState.IDLE, owner="", expires_at=None))


def end_all_leases(db: Database) -> int:
    """End every lease, because this database is an older copy; return how many.

    Their epochs skip those that the newer copy may have given to runs which still exist.
    """
    row = db.t.lease
    values = {"state": LeaseState.IDLE, "owner": "", "expires_at": None, "epoch": row.c.epoch + EPOCHS_OF_A_COPY}
    with db.write() as c:
        return c.execute(update(row).values(values)).rowcount


def busy(row: Table, job: str) -> ColumnElement[bool]:
    """Return the condition that a lease of a job is in use now.

    A lease that ends later than any lease can was acquired while the database's clock was ahead: it does not count.
    """
    ends = row.c.expires_at
    is_valid = and_(ends > now_once(), ends <= now_once(2 * TTL_SECONDS * 1000))
    return and_(row.c.job == job, row.c.state == LeaseState.BUSY, is_valid)


def may_be_deleting(db: Database, c: Connection, instance: str) -> bool:
    """Return whether a worker, or a request of one whose lease has just expired, may be deleting files."""
    lease, now = db.t.lease, db.now(c)
    # As for ``busy``: a lease of the future was acquired while the clock was ahead.
    is_believable = lease.c.expires_at <= now + LONGEST_WAIT_SECONDS * 1000
    is_recent = and_(lease.c.expires_at > now - int(IN_FLIGHT_SECONDS * 1000), is_believable)
    in_use = and_(lease.c.instance == instance, lease.c.state == LeaseState.BUSY, is_recent)
    return c.execute(select(lease.c.job).where(in_use)).first() is not None


def seconds_of_requests(db: Database, c: Connection, instance: str) -> float:
    """Return for how long a request may still delete files whose sender nobody waits for; 0 or less: none may.

    Its batch was taken over, or its lease was released while it worked. What was recorded while the database's clock
    was far ahead does not count.
    """
    batch, now = db.t.batch, db.now(c)
    is_believable = batch.c.taken_over_at < now + LONGEST_WAIT_SECONDS * 1000
    newest = select(func.max(batch.c.taken_over_at)).where(batch.c.instance == instance, is_believable)
    taken_over_at = c.execute(newest).scalar_one_or_none()
    return 0 if taken_over_at is None else float((taken_over_at - now) / 1000 + IN_FLIGHT_SECONDS)


def is_lease(row: Table, lease: Lease) -> ColumnElement[bool]:
    """Return the condition that a row is this lease, and no later one."""
    return and_(
        row.c.instance == lease.instance,
        row.c.job == lease.job,
        row.c.epoch == lease.epoch,
        row.c.owner == lease.owner,
        row.c.state == LeaseState.BUSY,
    )


def renewed_at(db: Database, c: Connection, instance: str, job: str) -> int | None:
    """Return when the lease of a job was last acquired or renewed (ms since 1970); None: no run has it."""
    lease = db.t.lease
    is_held = and_(lease.c.instance == instance, lease.c.job == job, lease.c.state == LeaseState.BUSY)
    ends = c.execute(select(lease.c.expires_at).where(is_held)).scalar_one_or_none()
    return None if ends is None else ends - TTL_SECONDS * 1000
