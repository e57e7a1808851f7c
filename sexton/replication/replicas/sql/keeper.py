"""Who needs versions of a tablet: its copies on other backends, which fetch what they lack from one another.

Asked by a claim, under the guard, about marks that are versions of a tablet. Of a tablet without copies nobody is
asked, and of one that is dropped as a whole nobody needs anything. Reports are taken under the same guard.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.marks.keepers import REPLICA
from sexton.marks.model import Ref
from sexton.replication.replicas import policy
from sexton.replication.replicas.sql.rows import needed_versions, record_released_versions, replicas_of


def needed(db: Database, c: Connection, instance: str, versions: Mapping[Ref, tuple[str, int]]) -> Mapping[Ref, str]:
    """Return the marks that a copy may still need, and on which backend that is: there are fewer of them than tablets.

    Args:
        db: the database.
        c: a transaction that decides about the instance.
        instance: whose marks.
        versions: each mark's tablet, and the highest version that goes with it.
    """
    if not versions:
        return {}
    lowest = needed_versions(db, c, instance, {tablet for tablet, _ in versions.values()})
    held = {ref: tablet for ref, (tablet, last) in versions.items() if tablet in lowest and last >= lowest[tablet]}
    if not held:
        return {}
    now, copies = db.now(c), replicas_of(db, c, instance, set(held.values()))
    names = {}
    for tablet, its in copies.items():
        found = policy.lowest(its, now)
        who = found[1] if found else None
        names[tablet] = f"{REPLICA}{who.backend if who else 'any backend: none counts'}"
    return {ref: names[tablet] for ref, tablet in held.items()}


def noted(db: Database, c: Connection, instance: str, versions: Iterable[tuple[str, int]]) -> None:
    """Note that versions of tablets go, in the transaction that decides it; of tablets without copies nothing is."""
    most: dict[str, int] = {}
    for tablet, last in versions:
        most[tablet] = max(last, most.get(tablet, last))
    record_released_versions(db, c, instance, most)
