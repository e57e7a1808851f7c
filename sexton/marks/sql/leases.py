"""Leases: one round at a time works on an instance; every acquisition raises the epoch; so many at once, no more.

The lease is for economy, the claim is for safety (design, rule 7). An expired lease may be taken by anyone, with a new
epoch; whoever comes with the old epoch is refused at its next claim, outcome or removal.
"""

from sqlalchemy import ColumnElement, Connection, Table, and_, func, insert, select, update

from sexton.database.engine import Database
from sexton.database.guard import EVERYTHING, deciding
from sexton.kernel.crash_points import reached
from sexton.marks.lease import Lease
from sexton.marks.lease_port import LeaseBusy, LeaseLost, NoFreeSlot

TTL_SECONDS = 60


class LeaseStore:
    """Leases as rows, on the database's clock."""

    def __init__(self, db: Database, ttl_seconds: int = TTL_SECONDS, at_once: int | None = None) -> None:
        """``at_once``: leases of one job over all workers (``recycle_concurrency``); None sets no bound."""
        self._db = db
        self.ttl_seconds = ttl_seconds
        self._at_once = at_once

    def acquire(self, instance: str, job: str, owner: str) -> Lease:
        """Take the lease for ``owner`` (a run id); repeating it as the same owner keeps the epoch while it is valid.

        Raises:
            LeaseBusy: somebody else holds it.
            NoFreeSlot: as many leases are held as are allowed at once.
            UnknownInstance: no such instance.
        """
        row = self._db.t.lease
        mine = and_(row.c.instance == instance, row.c.job == job)
        with deciding(self._db, EVERYTHING, instance) as c:  # whoever counts leases must not meet another who does
            now = self._db.now(c)
            found = c.execute(select(row).where(mine)).one_or_none()
            epoch = 1
            if self._at_once is not None and (busy := self._busy(c, instance, job, now)) >= self._at_once:
                raise NoFreeSlot(
                    f"{busy} rounds run already, recycle_concurrency allows {self._at_once}; {instance} waits its turn"
                )
            if found is None:
                c.execute(insert(row).values(instance=instance, job=job))
            else:
                epoch = found.epoch + 1
                if found.state == "BUSY" and now < found.expires_at <= now + 2 * self.ttl_seconds * 1000:
                    if found.owner != owner:
                        left = (found.expires_at - now) // 1000
                        raise LeaseBusy(f"a round of {instance} is running ({found.owner}); its lease ends in {left} s")
                    epoch = found.epoch
            expires = now + self.ttl_seconds * 1000
            c.execute(
                update(row)
                .where(mine)
                .values(state="BUSY", owner=owner, epoch=epoch, acquired_at=now, expires_at=expires)
            )
        reached("lease.acquired")
        return Lease(instance=instance, job=job, owner=owner, epoch=epoch)

    def _busy(self, c: Connection, instance: str, job: str, now: int) -> int:
        """Return how many other instances are being worked on."""
        row = self._db.t.lease
        others = and_(busy(row, job, now, self.ttl_seconds), row.c.instance != instance)
        return int(c.execute(select(func.count()).where(others)).scalar_one())

    def renew(self, lease: Lease) -> None:
        """Prove the lease is still ours and move its end forward.

        Raises:
            LeaseLost: it expired or was taken; it is not renewed then, only acquired anew with a new epoch.
        """
        row = self._db.t.lease
        with self._db.write() as c:
            now = self._db.now(c)
            renewed = c.execute(
                update(row)
                .where(_held(row, lease), row.c.expires_at > now)
                .values(expires_at=now + self.ttl_seconds * 1000)
            ).rowcount
        if renewed != 1:
            raise LeaseLost(f"the lease on {lease.instance} (epoch {lease.epoch}) has expired or was taken over")

    def free(self, lease: Lease) -> None:
        """Give the lease back; nothing happens when it is not ours any more."""
        row = self._db.t.lease
        with self._db.write() as c:
            c.execute(update(row).where(_held(row, lease)).values(state="IDLE", owner="", expires_at=None))


def busy(row: Table, job: str, now: int, ttl_seconds: int = TTL_SECONDS) -> ColumnElement[bool]:
    """Return the condition that a lease of a job is held at ``now`` (ms since 1970).

    One that would end later than any lease can was taken while the database's clock was ahead: it holds nobody up.
    """
    ends = row.c.expires_at
    return and_(row.c.job == job, row.c.state == "BUSY", ends > now, ends <= now + 2 * ttl_seconds * 1000)


def _held(row: Table, lease: Lease) -> ColumnElement[bool]:
    return and_(
        row.c.instance == lease.instance,
        row.c.job == lease.job,
        row.c.epoch == lease.epoch,
        row.c.owner == lease.owner,
        row.c.state == "BUSY",
    )
