"""Open deciding transactions: there is no other way to open one.

A transaction that claims, protects, holds, undrops, quarantines, enables or acquires a lease first updates the guard
row *in a statement of its own*; its checks are later statements and so see everything decided before. A lock taken
in the same statement as the check, or FOR UPDATE under REPEATABLE READ, was seen to let both sides win. The function
``sexton.undrop`` does the same in SQL (migrations/versions/0001.functions.sql). The owner's commit takes no guard: it
removes its own mark rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text, update
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.kernel.errors import GuardBusy, NotFound

SECOND_LOCK_MS = 500
EVERYTHING = "*"
"""The guard row for decisions about all instances: registering vaults, counting leases."""


class UnknownInstance(NotFound):
    """No instance of that name is registered."""

    def __init__(self, instance: str) -> None:
        super().__init__(f"unknown instance {instance}; see: sexton instance list")
        self.instance = instance


@contextmanager
def deciding(db: Database, *instances: str) -> Iterator[Connection]:
    """Open a transaction that may decide about these instances; no other transaction decides about them meanwhile.

    ``EVERYTHING`` always comes before an instance: with one order for all, no two transactions wait for each other.

    Raises:
        UnknownInstance: an instance has no guard row.
        GuardBusy: an owner's undrop has held the guard for seconds.
    """
    guard = db.t.instance_guard
    with db.write() as connection:
        try:
            for position, instance in enumerate(instances):
                if position:  # the holder of the first must not wait long for the second
                    connection.execute(text(f"SET LOCAL lock_timeout = '{SECOND_LOCK_MS}ms'"))
                of_instance = update(guard).where(guard.c.instance == instance)
                if connection.execute(of_instance.values(seq=guard.c.seq + 1)).rowcount != 1:
                    raise UnknownInstance(instance)
        except OperationalError as e:
            if is_locked(e):
                raise GuardBusy(
                    f"another transaction holds the guard of {' or '.join(instances)}; retry when it ends"
                ) from e
            raise
        yield connection
