"""Store batches: a batch is the row of one range, and its token lets one attempt write.

A token may write while its lease epoch, its attempt and its opening of the batch are still the latest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, exists, func, insert, literal, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database, now_column
from sexton.database.rows import MOST_SUM, plus
from sexton.database.tables import TABLES
from sexton.marks.file_results import UNTRIED, FileResults
from sexton.marks.model import SECOND_PASS, BatchState, LeaseLost, LeaseState, WriteToken
from sexton.marks.sql.rows import CLAIMED
from sexton.recycle.model import DAY_MS
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder, RangeReceipt
from sexton.storage.model import ClaimId

_BATCH, _LEASE, _FILES = TABLES.batch, TABLES.lease, TABLES.file_list
_OF_TOKEN = and_(
    _BATCH.c.id == bindparam("of"),
    _BATCH.c.lease_epoch == bindparam("in_epoch"),
    _BATCH.c.attempt == bindparam("tried"),
    _BATCH.c.open_count == bindparam("opened"),
)
"""The condition that the token is the latest of its batch. These statements run before every write: built once."""
_IS_LEASE = and_(_LEASE.c.instance == bindparam("of_instance"), _LEASE.c.job == bindparam("for_job"))
_OF_LEASE = (_LEASE.c.epoch, _LEASE.c.owner, _LEASE.c.state, _LEASE.c.expires_at)
FIND_LEASE = select(*_OF_LEASE).where(_IS_LEASE)
LOCK_BATCH = select(_BATCH.c.id).where(_OF_TOKEN).with_for_update(key_share=True)
SHARE_BATCH = select(_BATCH.c.id).where(_OF_TOKEN).with_for_update(read=True, key_share=True)
FIND_FILE = (
    select(_FILES.c.first, _FILES.c.results, now_column().label("now"), *_OF_LEASE)
    .select_from(_FILES.join(_LEASE, _IS_LEASE))
    .where(_FILES.c.batch == bindparam("of"), _FILES.c.last >= bindparam("file"), _FILES.c.first <= bindparam("file"))
    .where(exists().where(_OF_TOKEN))
    .order_by(_FILES.c.last)
    .limit(1)
)
"""The list of one file, and the lease."""


class BatchStore:
    """Opens, closes and adopts batches."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def open(self, order: RangeOrder | AdoptOrder, attempt: int) -> tuple[WriteToken, RangeReceipt | None, int]:
        """Open (or open again) the batch of a range, or that of the round's second passes.

        Returns:
            the token; a receipt, if an earlier attempt finished it; how many marks earlier attempts have claimed.
        """
        batch, round_, lease = self._db.t.batch, order.round, order.lease
        kind, number, first = SECOND_PASS, 0, ""
        if isinstance(order, RangeOrder):
            kind, number, first = order.kind, order.number, order.after.model_dump_json()
        same_range = and_(batch.c.round == round_, batch.c.kind == kind, batch.c.number == number)
        with self._db.write() as c:
            row = c.execute(select(batch).where(same_range).with_for_update()).one_or_none()
            if row is None:
                values = {"instance": lease.instance, "round": round_, "kind": kind, "number": number}
                batch_id = c.execute(
                    insert(batch)
                    .values(
                        **values, first=first, last="", lease_epoch=lease.epoch, attempt=attempt, state=BatchState.OPEN
                    )
                    .returning(batch.c.id)
                ).scalar_one()
                token = WriteToken(batch=batch_id, round=round_, lease=lease, attempt=attempt)
                verify(c, token)  # no later round could take over a batch of an epoch that never was
                return token, None, 0
            token = WriteToken(batch=row.id, round=round_, lease=lease, attempt=attempt)
            if row.receipt is not None:
                return token, RangeReceipt.model_validate(row.receipt), row.claimed
            return self._reopen(c, token), None, row.claimed

    def ensure_latest(self, token: WriteToken, files: Sequence[int]) -> None:
        """Check epoch, attempt and opening without a lock, just before a request that cannot be called back.

        ``files``: the numbers of the files that the request deletes, all of one list. Spark may run a task twice, with
        one token: files of the slower one are done already, and their marks may be settled.

        Raises:
            LeaseLost: a newer attempt or a newer epoch works here, the lease has expired, or a file was tried.
        """
        parameters = {**_parameters(token), "file": files[0], "of_instance": token.instance, "for_job": token.lease.job}
        with self._db.look_up() as connection:
            row = connection.execute(FIND_FILE, parameters).first()
        codes = b"" if row is None else FileResults.decode(row.results).codes
        if row is None or any(codes[file - row.first] != UNTRIED for file in files):
            raise LeaseLost(f"batch {token.batch} was taken over by a newer attempt or lease, or its files were tried")
        _check_lease(row, token, row.now)

    def last_claim(self, token: WriteToken) -> ClaimId:
        """Return the last claim of this batch, over all attempts; of second passes that of their round."""
        batch, claim = self._db.t.batch, self._db.t.claim
        of_round = select(func.max(claim.c.id)).where(claim.c.round == batch.c.round).scalar_subquery()
        number = case((batch.c.claim > 0, batch.c.claim), else_=func.coalesce(of_round, 0)).label("number")
        with self._db.look_up() as c:
            row = c.execute(select(number, batch.c.round).where(batch.c.id == token.batch)).one()
        return ClaimId(row.number, row.round)

    def record_requests(self, token: WriteToken) -> None:
        """Record that a request of the batch may be on its way for which nobody waits."""
        batch = self._db.t.batch
        with self._db.write() as c:
            verify(c, token)
            c.execute(update(batch).where(batch.c.id == token.batch).values(taken_over_at=self._db.now(c)))

    def close(self, token: WriteToken, receipt: RangeReceipt | None = None) -> None:
        """Close a batch. ``receipt``: what answers a repeated order; None: no workflow waits for one."""
        batch, values = self._db.t.batch, dict[str, Any]()
        if receipt is not None:
            values = {"receipt": receipt.model_dump(), "last": receipt.last.model_dump_json()}
        with self._db.write() as c:
            verify(c, token)
            c.execute(update(batch).where(batch.c.id == token.batch).values(state=BatchState.DONE, **values))

    def unfinished(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        mark, batch = self._db.t.mark, self._db.t.batch
        left_open = select(batch.c.id).where(
            batch.c.instance == instance, batch.c.state == BatchState.OPEN, batch.c.round != round_
        )
        claimed = and_(mark.c.instance == instance, mark.c.state == CLAIMED)
        # One seek in the index for each batch: a plan that reads every claimed mark may take minutes.
        hop = select(func.min(mark.c.batch).label("batch")).where(claimed).cte("hop", recursive=True)
        step = select(func.min(mark.c.batch)).where(claimed, mark.c.batch > hop.c.batch).scalar_subquery()
        hop = hop.union_all(select(step).where(hop.c.batch.is_not(None)))
        untried = exists().where(claimed, mark.c.batch == batch.c.id, mark.c.first_pass_at.is_(None))
        untried = untried.where(mark.c.quarantined_reason.is_(None), mark.c.absorbed.is_(False))
        # This round's own ranges are finished by their own retries.
        with_claimed_marks = (
            select(batch.c.id).join(hop, hop.c.batch == batch.c.id).where(batch.c.round != round_, untried)
        )
        with self._db.read() as c:
            return sorted(c.execute(left_open.union(with_claimed_marks)).scalars())

    def adopt_earlier(self, batch: int, order: AdoptOrder, attempt: int) -> WriteToken:
        """Adopt a batch of an earlier round; its failed deletes are tried again."""
        token = WriteToken(batch=batch, round=order.round, lease=order.lease, attempt=attempt)
        with self._db.write() as c:
            return self._reopen(c, token)

    def _reopen(self, c: Connection, token: WriteToken) -> WriteToken:
        """Take the batch over and open it, unless a newer attempt has it; return the token that may write for it.

        While it is open, a take-over records that requests may be sent. Threads that store outcomes under the old
        token share the row: the take-over waits for them. What the old attempt left is dropped page by page, by
        ``FileStore.drop_unclaimed``, before this attempt reads any file.
        """
        batch = self._db.t.batch
        older = (batch.c.lease_epoch < token.lease.epoch) | (
            (batch.c.lease_epoch == token.lease.epoch) & (batch.c.attempt <= token.attempt)
        )
        c.execute(select(batch.c.id).where(batch.c.id == token.batch).with_for_update())
        # A batch that is closed has no request on its way.
        now = literal(self._db.now(c), batch.c.taken_over_at.type)
        taken_over_at = case((batch.c.state == BatchState.OPEN, now), else_=batch.c.taken_over_at)
        owner: dict[str, Any] = {"lease_epoch": token.lease.epoch, "attempt": token.attempt}
        owner |= {"open_count": batch.c.open_count + 1, "taken_over_at": taken_over_at}
        opened = update(batch).where(batch.c.id == token.batch, older).values(**owner).returning(batch.c.open_count)
        token = token.model_copy(update={"open_count": c.execute(opened).scalar_one_or_none() or 0})
        verify(c, token)
        c.execute(update(batch).where(batch.c.id == token.batch).values(state=BatchState.OPEN))
        return token


def limited_objects_claimed(db: Database, c: Connection, instance: str, now: int) -> int:
    """Return how many objects that count against the limits were claimed within the last 24 hours."""
    batch = db.t.batch
    recent = and_(batch.c.instance == instance, batch.c.limited_objects > 0, batch.c.claimed_at > now - DAY_MS)
    return int(c.execute(select(func.coalesce(func.sum(batch.c.limited_objects), 0)).where(recent)).scalar_one())


def verify(connection: Connection, token: WriteToken, *, now: int | None = None, shared: bool = False) -> None:
    """Lock the batch row and check epoch, attempt and opening; with ``now``, also that the lease has not expired.

    On PostgreSQL a take-over takes the row FOR UPDATE, a write FOR NO KEY UPDATE and a ``shared`` write FOR KEY SHARE:
    only the take-over waits for shared writes, and they for it.

    An outcome of a delete may be written after expiry as long as no newer attempt took over; a claim may not.
    ``shared``: threads with the same token may write at the same time, each about its own files.

    Raises:
        LeaseLost: a newer attempt or a newer epoch works here; the transaction must end without effect.
    """
    if connection.execute(SHARE_BATCH if shared else LOCK_BATCH, _parameters(token)).first() is None:
        raise LeaseLost(f"batch {token.batch} was taken over by a newer attempt or lease")
    # A statement of its own: it sees what was committed while this one waited for the batch's row.
    of_lease = {"of_instance": token.instance, "for_job": token.lease.job}
    _check_lease(connection.execute(FIND_LEASE, of_lease).one_or_none(), token, now)


def _parameters(token: WriteToken) -> dict[str, int]:
    return {"of": token.batch, "in_epoch": token.lease.epoch, "tried": token.attempt, "opened": token.open_count}


def _check_lease(lease: Any, token: WriteToken, now: int | None) -> None:
    """Raise ``LeaseLost`` unless the row of the lease is the token's; with ``now``, also if it has expired. Pure."""
    if (
        lease is None
        or (lease.state, lease.owner, lease.epoch) != (LeaseState.BUSY, token.lease.owner, token.lease.epoch)
        or (now is not None and lease.expires_at <= now)
    ):
        raise LeaseLost(f"the lease on {token.instance} (epoch {token.lease.epoch}) has expired or was taken over")


def add_to_round(
    db: Database, tx: Connection, round_: int, counts: Mapping[tuple[str, str], Mapping[str, int]]
) -> None:
    """Add to a round's counts in the transaction that makes them true, so that no crash counts twice or not at all.

    Counts are per (kind, vault), each at most ``MOST_SUM``; their names are those of ``KindVaultCounts``.
    """
    table = db.t.tally
    for (kind, vault), given in sorted(counts.items()):
        numbers = {name: min(number, MOST_SUM) for name, number in given.items()}
        row = {"round": round_, "kind": kind, "vault": vault, **numbers}
        sums = {name: plus(table.c[name], number) for name, number in numbers.items()}
        tx.execute(
            upsert(table).values(row).on_conflict_do_update(index_elements=["round", "kind", "vault"], set_=sums)
        )
