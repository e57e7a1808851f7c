"""Replicas as a keeper: versions of a tablet are retained while a replica may still fetch them from another one.

Reports of replicas are taken under the same guard, so a report comes before a claim or after it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from sexton.marks.keepers import KeepReason, Kept
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.file_lists import Span
from sexton.marks.sql.keeper import Keeper
from sexton.replication.replicas import policy
from sexton.replication.replicas.sql.rows import needed_versions, record_released_versions, replicas_of


class ReplicaKeeper(Keeper):
    """Judges candidates that are versions of a tablet."""

    for_claims_only = True
    """What is claimed was recorded as released; a fence deletes nothing."""

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        _files: Span,
        now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return the marks whose versions a replica may still need."""
        versions = _versions(candidates)
        if not versions:
            return {}
        lowest_needed = needed_versions(self._db, tx, token.instance, {tablet for tablet, _ in versions.values()})
        needed = {
            ref: tablet
            for ref, (tablet, last) in versions.items()
            if tablet in lowest_needed and last >= lowest_needed[tablet]
        }
        if not needed:
            return {}
        answers = {}
        for tablet, replicas in replicas_of(self._db, tx, token.instance, set(needed.values())).items():
            lowest = policy.lowest_needed_version(replicas, now)
            replica = lowest[1] if lowest else None
            backend = replica.backend if replica else "any backend: no replica counts"
            answers[tablet] = Kept(KeepReason.REPLICA, backend)
        return {ref: answers[tablet] for ref, tablet in needed.items()}

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
