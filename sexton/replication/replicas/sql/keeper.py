"""Replicas as a keeper: versions of a tablet are retained while a replica may still fetch them from another one.

Reports of replicas are taken under the same guard, so a report comes before a claim or after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.marks.kept import Event, KeepReason, Kept, way_out
from sexton.marks.model import Candidate, Ref, Span, WriteToken
from sexton.marks.sql.keeper import Keeper
from sexton.replication.replicas.sql.rows import needed_versions, record_released_versions


class ReplicaKeeper(Keeper):
    """Judges candidates that are versions of a tablet."""

    for_claims_only = True
    """What is claimed was recorded as released; a fence deletes nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        _files: Span,
        _now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return the marks whose versions a replica may still need."""
        return self._judge(tx, token.instance, candidates)

    def explain(self, instance: str, mark: Candidate) -> Iterator[Event]:
        """Yield the replica that may still need versions of the mark."""
        with self._db.read() as c:
            for kept in self._judge(c, instance, [mark]).values():
                yield Event(event="replica", text=f"kept by {kept}: {way_out(kept, instance)}")

    def _judge(self, c: Connection, instance: str, candidates: Sequence[Candidate]) -> Mapping[Ref, Kept]:
        versions = _versions(candidates)
        if not versions:
            return {}
        needed = needed_versions(self._db, c, instance, {tablet for tablet, _ in versions.values()})
        return {
            ref: Kept(KeepReason.REPLICA, needed[tablet].backend or "any backend: no replica counts")
            for ref, (tablet, last) in versions.items()
            if tablet in needed and last >= needed[tablet].version
        }

    def on_claimed(self, tx: Connection, token: WriteToken, claimed: Sequence[Candidate]) -> None:
        """Record the highest version of each tablet that is claimed now; tablets without replicas are left out."""
        highest: dict[str, int] = {}
        for tablet, last in _versions(claimed).values():
            highest[tablet] = max(last, highest.get(tablet, last))
        record_released_versions(self._db, tx, token.instance, highest)


def _versions(candidates: Sequence[Candidate]) -> dict[Ref, tuple[str, int]]:
    """Return the tablet and the highest version of each candidate that holds some.

    Marks that are deleted with their parent are skipped: no replica needs versions of a dropped tablet.
    """
    return {c.ref: c.versions for c in candidates if c.versions is not None and c.parent is None}
