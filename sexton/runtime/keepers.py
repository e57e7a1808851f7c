"""Build everything that may block a deletion."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sexton.database.engine import Database

if TYPE_CHECKING:
    from sexton.marks.sql.keeper import Keeper


def keepers(db: Database) -> "Sequence[Keeper]":
    """Return everything that may block a deletion, in order of precedence."""
    from sexton.marks.sql.prepared import PreparedKeeper
    from sexton.operators.holds.keeper import HoldKeeper
    from sexton.protection.sql.keeper import ProtectionKeeper
    from sexton.replication.replicas.sql.keeper import ReplicaKeeper

    return (HoldKeeper(db), ProtectionKeeper(db), ReplicaKeeper(db), PreparedKeeper(db))
