"""Which tokens may write: the latest opening of a batch, under a lease that its epoch still holds."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy.exc import OperationalError

from sexton.kernel import crash_points
from sexton.marks.model import (
    Candidate,
    ClaimRequest,
    File,
    FilePage,
    LeaseLost,
    MarkState,
    Reason,
    Ref,
    Unresolvable,
    WriteToken,
)
from sexton.marks.sql.leases import TTL_SECONDS
from sexton.operators.holds.model import Hold
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.model import Cursor, RangeReceipt
from sexton.recycle.pipeline.parts import Stores
from sexton.recycle.pipeline.sql.batches import verify
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import FAR_MS, claim, mark_keys, token
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import Rig

M = Ref("dropped", "m")
NEW = Candidate(Ref("dropped", "new"))
DELETED = KeyResult(key="m.dat", outcome=KeyOutcome.DELETED)
GONE = DeletionProgress(M, "disk", files=1, done=1, objects=1)
Write = Callable[[Stores, WriteToken], object]
WRITES: dict[str, Write] = {
    "open": lambda s, t: s.batches.ensure_latest(t, [1]),
    "store": lambda s, t: s.files.store(t, [File("dropped", "m", "disk", "m.dat", 1)]),
    "drop": lambda s, t: s.files.drop(t, [M]),
    "drop unclaimed": lambda s, t: s.files.drop_unclaimed(t, 0, second_pass=True),
    "fence": lambda s, t: s.owner_marks.fence(t, [M]),
    "unfence": lambda s, t: s.owner_marks.unfence(t, {M: "in use"}, []),
    "ask keepers": lambda s, t: s.claims.ask_keepers_outside_claim(t, [NEW]),
    "claim": lambda s, t: s.claims.claim(ClaimRequest(t, [NEW], FAR_MS)),
    "record": lambda s, t: s.outcomes.record(t, FilePage("disk", [1], ["m.dat"]), [DELETED]),
    "record requests": lambda s, t: s.batches.record_requests(t),
    "settle": lambda s, t: s.settlements.settle(t, [GONE], 600),
    "read progress": lambda s, t: s.settlements.progress(t, [M]),
    "record finished": lambda s, t: s.settlements.record_finished(t, [M]),
    "quarantine": lambda s, t: s.quarantine.quarantine(
        t,
        [
            Unresolvable(mark, Reason.NO_VAULT, "")
            for mark in s.due_marks.select_due("shop", "dropped", FAR_MS, Cursor(), 1)
        ],
    ),
    "note lacking": lambda s, t: s.owner_marks.note_lacking(t, {M: Reason.SCHEMA_MISSING}),
    "take second pass": lambda s, t: s.due_marks.take_second_pass(t, Ref("", ""), 10, 600),
    "take finished": lambda s, t: s.due_marks.take_finished(t, Ref("", ""), 10),
    "shorten waits": lambda s, t: s.due_marks.shorten_waits(t, 600),
    "close": lambda s, t: s.batches.close(t, RangeReceipt(last=Cursor())),
    "end": lambda s, t: s.batches.close(t),
}
BEFORE_EXPIRY = ("open", "fence", "claim", "take second pass", "take finished")
"""Writes that decide something, or come before a request, and so need a lease that has not expired."""
EFFECTIVE = ("store", "record", "claim", "drop", "settle", "quarantine", "end", "close")
"""Writes that change something in the middle of a holder's work, one after the other."""


@pytest.fixture
def holder(rig: Rig) -> WriteToken:
    """A holder in the middle of its work: it has claimed ``m``, with one file; ``new`` and ``next`` are due."""
    mark_keys(rig, "m", "new", "next")
    claiming = token(rig)
    claim(rig, claiming, *M)
    return claiming


def world(rig: Rig) -> str:
    """Return everything that a late write could change."""
    tables = ("mark", "file_list", "mark_history", "batch", "tally")
    return repr([sorted(map(repr, rig.rows(table))) for table in tables])


def assert_nothing_is_written(rig: Rig, by: WriteToken) -> None:
    before = world(rig)

    for name, write in WRITES.items():
        with pytest.raises(LeaseLost):
            write(rig.stores, by)
        assert world(rig) == before, name


def test_r30_the_holder_of_an_old_epoch_writes_nothing(rig: Rig, holder: WriteToken) -> None:
    rig.later(TTL_SECONDS)
    token(rig, run="second")

    assert_nothing_is_written(rig, holder)


def test_r30_an_older_attempt_writes_nothing(rig: Rig, holder: WriteToken) -> None:
    newer = token(rig, attempt=2)
    assert (newer.batch, newer.lease) == (holder.batch, holder.lease)

    assert_nothing_is_written(rig, holder)
    with pytest.raises(LeaseLost, match="taken over by a newer attempt"):
        token(rig, attempt=1)
    verify_at(rig, newer)


def test_r30_only_the_last_opener_of_an_attempt_writes(rig: Rig, holder: WriteToken) -> None:
    """A run that was reset in Temporal starts its attempts at 1 again."""
    again = token(rig, attempt=1)
    assert (again.batch, again.lease, again.attempt) == (holder.batch, holder.lease, holder.attempt)

    assert_nothing_is_written(rig, holder)


def test_a_freed_lease_writes_nothing(rig: Rig, holder: WriteToken) -> None:
    rig.leases.free(holder.lease)

    assert_nothing_is_written(rig, holder)


def test_the_holder_of_the_lease_can_write_everything(rig: Rig, holder: WriteToken) -> None:
    for write in EFFECTIVE:
        before = world(rig)

        WRITES[write](rig.stores, holder)

        assert world(rig) != before, write


def verify_at(rig: Rig, with_: WriteToken, now: int | None = None, *, shared: bool = False) -> None:
    """Verify a token as a claim does at an instant, or as an outcome does."""
    with rig.db.write() as c:
        verify(c, with_, now=now, shared=shared)


def test_an_expired_older_or_other_lease_proves_nothing(rig: Rig) -> None:
    with_ = token(rig)
    [lease] = rig.rows("lease")
    verify_at(rig, with_, lease.expires_at - 1)
    with pytest.raises(LeaseLost):
        verify_at(rig, with_, lease.expires_at)

    rig.later(TTL_SECONDS)
    new = rig.leases.acquire("shop", with_.lease.job, with_.lease.owner)
    assert new.epoch == with_.lease.epoch + 1
    for shared in (False, True):
        with pytest.raises(LeaseLost, match="epoch 1"):
            verify_at(rig, with_, shared=shared)


def test_a_lease_of_another_job_proves_nothing(rig: Rig) -> None:
    with_ = token(rig)
    rig.leases.free(with_.lease)
    rig.leases.acquire("shop", "check", with_.lease.owner)

    with pytest.raises(LeaseLost):
        verify_at(rig, with_)


def test_outcomes_are_stored_while_a_claim_holds_the_batch(rig: Rig) -> None:
    with_ = token(rig)
    storing = threading.Thread(target=lambda: verify_at(rig, with_, shared=True))

    with rig.db.write() as claiming:
        verify(claiming, with_)
        storing.start()
        storing.join(PATIENCE_SECONDS)

        assert not storing.is_alive()


@pytest.mark.parametrize("shared", [False, True])
def test_a_take_over_waits_for_a_write_under_way(rig: Rig, shared: bool) -> None:
    first, opened = token(rig), []
    taking_over = threading.Thread(target=lambda: opened.append(token(rig, attempt=2)))

    with rig.db.write() as writing:
        verify(writing, first, shared=shared)
        taking_over.start()
        wait_for_lock_waiter(rig.db)
        assert opened == []
    taking_over.join(PATIENCE_SECONDS)

    assert [second.attempt for second in opened] == [2]
    with pytest.raises(LeaseLost):
        verify_at(rig, first, shared=shared)


def test_after_expiry_outcomes_are_stored_and_nothing_is_decided(rig: Rig, holder: WriteToken) -> None:
    rig.later(TTL_SECONDS)
    before = world(rig)

    for write in BEFORE_EXPIRY:
        with pytest.raises(LeaseLost, match="expired"):
            WRITES[write](rig.stores, holder)
        assert world(rig) == before, write
    WRITES["record"](rig.stores, holder)

    assert rig.count_files(outcome="deleted") == 1


def test_no_request_is_sent_for_a_file_that_was_tried(rig: Rig) -> None:
    write_token = token(rig)
    rig.stores.files.store(write_token, [File("dropped", "m", "disk", key, 1) for key in ("a.dat", "b.dat", "c.dat")])
    rig.stores.outcomes.record(write_token, FilePage("disk", [2], ["b.dat"]), [DELETED])

    rig.stores.batches.ensure_latest(write_token, [1, 3])
    for files in ([2], [1, 2], [2, 3]):
        with pytest.raises(LeaseLost, match="its files were tried"):
            rig.stores.batches.ensure_latest(write_token, files)


def test_a_late_claim_drops_no_file_of_a_newer_attempt(rig: Rig) -> None:
    mark_keys(rig, "m")
    placed, _ = rig.holds.place(Hold(instance="shop", scope="instance", reason="an incident"), 3_600)
    older, newer = token(rig), []

    def claim_again(point: str) -> None:
        if point == "claim.committed" and not newer:
            rig.holds.release(placed.id)
            newer.append(token(rig, attempt=2))
            claim(rig, newer[0], *M)

    with crash_points.installed(claim_again), pytest.raises(LeaseLost, match="taken over by a newer attempt"):
        claim(rig, older, *M)

    assert (rig.row(*M).state, rig.count_files(id="m")) == (MarkState.CLAIMED, 1)


def test_an_older_attempt_is_refused_in_its_owners_transaction(rig: Rig, holder: WriteToken) -> None:
    assert rig.stores.settlements.record_finished(holder, [M]) == {M}
    token(rig, attempt=2)

    with rig.db.write() as owner, pytest.raises(LeaseLost, match="taken over by a newer attempt"):
        rig.stores.settlements.lock_finished(owner, holder, [M])


def test_no_mark_is_discarded_while_its_owner_removes_records(rig: Rig, holder: WriteToken) -> None:
    rig.stores.settlements.record_finished(holder, [M])
    rig.update("mark", {"id": "m"}, first_pass_at=1)

    with rig.db.write() as owner:
        assert rig.stores.settlements.lock_finished(owner, holder, [M]) == {M}
        rig.later(200)  # the lease expires, and requests end
        with pytest.raises(OperationalError, match="lock timeout"):
            QuarantineStore(rig.db).discard("shop", M, "its files must stay")

    assert rig.row(*M).finished
