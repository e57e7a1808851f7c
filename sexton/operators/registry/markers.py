"""Compare the markers of vaults with the rounds and claims of this database, and let one worker at a time write each.

A marker names the last claim before the first file of that claim is deleted. So a database that knows the claim knows
every claim whose files may be gone: claims of an instance are numbered and committed one after the other, under its
guard (docs/adr/0046).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, and_, func, insert, select, update
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.guard import deciding
from sexton.storage.model import Marker
from sexton.storage.port import Throttled


class WritingMarker:
    """One worker's turn to write a vault's marker. Implements ``storage.port.MarkerTurn``.

    All statements use the transaction that holds the vault's row: an executor of Spark has one connection.
    """

    def __init__(self, db: Database, c: Connection, instance: str, vault: str) -> None:
        self._db, self._c = db, c
        self._instance, self._vault = instance, vault

    def knows(self, marker: Marker) -> bool:
        """Return whether this database knows the round and the claim that the marker names."""
        return _knows(self._db, self._c, self._instance, marker)

    def with_last_claim(self, marker: Marker, round_: int) -> Marker:
        """Return the marker with the newest claim of a round."""
        return _with_last_claim(self._db, self._c, marker, round_)

    def store_announced(self, round_: int) -> None:
        """Store that the marker names this round; this round and later ones are not forgotten."""
        t = self._db.t.vault
        is_vault = and_(t.c.instance == self._instance, t.c.name == self._vault, t.c.announced_round < round_)
        self._c.execute(update(t).where(is_vault).values(announced_round=round_))


class MarkerStore:
    """What this database knows of markers. Implements ``storage.port.MarkerRecords``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def knows(self, instance: str, marker: Marker) -> bool:
        """Return whether this database knows the round and the claim that a marker names."""
        with self._db.read() as c:
            return _knows(self._db, c, instance, marker)

    @contextmanager
    def writing(self, instance: str, vault: str) -> Iterator[WritingMarker]:
        """Wait for the turn to write a vault's marker; ``Throttled``: another worker has had it for seconds."""
        t = self._db.t.vault
        # No key update: rows that name the vault may be inserted meanwhile.
        lock = select(t.c.name).where(t.c.instance == instance, t.c.name == vault).with_for_update(key_share=True)
        with self._db.write() as c:
            try:
                c.execute(lock)
            except OperationalError as e:
                if is_locked(e):
                    raise Throttled(vault, "another worker has been writing its marker for seconds") from e
                raise
            yield WritingMarker(self._db, c, instance, vault)

    def as_ours(self, instance: str, marker: Marker) -> Marker:
        """Return a marker with the newest round of this database, and with a claim that no other database knows.

        A copy of this database, or its original, may know the round: without that claim it could go on deleting.
        """
        with deciding(self._db, instance) as c:  # as every claim
            round_ = _last_round(self._db, c, instance)
            if not round_:
                return marker.model_copy(update={"round": 0, "run": "", "claim": 0, "claim_key": ""})
            c.execute(insert(self._db.t.claim).values(round=round_))
            return _with_last_claim(self._db, c, marker, round_)

    def last_round(self, instance: str) -> int:
        """Return the number of the newest round of an instance; 0 if there was none."""
        with self._db.read() as c:
            return _last_round(self._db, c, instance)


def _last_round(db: Database, c: Connection, instance: str) -> int:
    t = db.t.round
    return int(c.execute(select(func.coalesce(func.max(t.c.id), 0)).where(t.c.instance == instance)).scalar_one())


def _with_last_claim(db: Database, c: Connection, marker: Marker, round_: int) -> Marker:
    """Return a marker with the newest claim of a round that has begun."""
    t = db.t
    columns = (t.round.c.run_id, t.claim.c.id, t.claim.c.key)
    newest = select(*columns).join(t.claim, t.claim.c.round == t.round.c.id).where(t.round.c.id == round_)
    row = c.execute(newest.order_by(t.claim.c.id.desc()).limit(1)).one()
    return marker.model_copy(update={"round": round_, "run": row.run_id, "claim": row.id, "claim_key": row.key})


def _knows(db: Database, c: Connection, instance: str, marker: Marker) -> bool:
    """Return whether the database has exactly this round, by number and run id, and exactly this claim of it.

    A copied database reuses the numbers of its original.
    """
    t = db.t
    query = select(t.round.c.id).where(
        t.round.c.id == marker.round, t.round.c.instance == instance, t.round.c.run_id == marker.run
    )
    if marker.claim:
        is_claim = and_(t.claim.c.round == t.round.c.id, t.claim.c.id == marker.claim)
        query = query.join(t.claim, is_claim).where(t.claim.c.key == marker.claim_key)
    return c.execute(query).one_or_none() is not None
