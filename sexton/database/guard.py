"""The one way to open a deciding transaction.

Whoever claims, undrops, sets aside, enables or acquires a lease first updates the guard row *in a statement of its
own*; the checks are later statements and so see everything that was decided before. A lock taken in the same statement
as the check, or FOR UPDATE under REPEATABLE READ, was seen to let both sides win (design, rule 3). On PostgreSQL
``sexton.undrop`` does the same in SQL. The owner's commit takes no guard: it removes its own mark rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text, update
from sqlalchemy.exc import OperationalError

from sexton.database.engine import LOCK_NOT_AVAILABLE, Database
from sexton.database.tables import Tables
from sexton.kernel.errors import GuardBusy, SextonError

SECOND_LOCK_MS = 500
EVERYTHING = "*"
"""The guard row for what concerns all instances: registering vaults, counting leases."""


class UnknownInstance(SextonError):
    """No instance of that name is registered."""

    def __init__(self, instance: str) -> None:
        super().__init__(f"unknown instance {instance}; see: sexton instance list")
        self.instance = instance


@contextmanager
def deciding(db: Database, *instances: str) -> Iterator[Connection]:
    """Open a transaction in which a decision about these may be made; nobody else decides meanwhile.

    ``EVERYTHING`` comes before an instance, always: the same order for all, so that nobody waits in a circle.

    Raises:
        UnknownInstance: there is no guard row for it.
        GuardBusy: an owner's undrop has held the guard for seconds.
    """
    with db.write() as connection:
        try:
            for n, instance in enumerate(instances):
                if n and db.dialect == "postgresql":  # whoever holds the first must not wait long for the second
                    connection.execute(text(f"SET LOCAL lock_timeout = '{SECOND_LOCK_MS}ms'"))
                take(connection, db.t, instance)
        except OperationalError as e:
            if getattr(e.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
                raise GuardBusy(f"a transaction holds the guard of {' or '.join(instances)}; it should end soon") from e
            raise
        yield connection


def take(connection: Connection, t: Tables, instance: str) -> None:
    """Take the guard as the first statement of a transaction that is open already (``BEGIN IMMEDIATE`` on SQLite)."""
    guard = t.instance_guard
    taken = connection.execute(update(guard).where(guard.c.instance == instance).values(seq=guard.c.seq + 1)).rowcount
    if taken != 1:
        raise UnknownInstance(instance)
