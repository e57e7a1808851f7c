"""Settling in the database: failures, second listings, outcomes that only move towards done, and history."""

from sexton.contract import NewMark
from sexton.marks.model import (
    MAX_FAILURES,
    POISON_RETRY_SECONDS,
    File,
    FilePage,
    MarkState,
    Reason,
    Ref,
    Settlement,
    WriteToken,
)
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import claim, token
from tests.support.files import stored_files
from tests.support.rig import Rig

T = Ref("dropped", "t")
GRACE = 600


def claim_mark(rig: Rig, *, prefix: str | None = None) -> WriteToken:
    """Claim a mark of one file, by its key or by a prefix."""
    keys = None if prefix else ("data/t.dat",)
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=keys, prefix=prefix))
    with_ = token(rig)
    claim(rig, with_, "dropped", "t")
    return with_


def record(rig: Rig, with_: WriteToken, outcome: KeyOutcome, reason: str = "", size: int | None = 1) -> None:
    """Store the outcome of the mark's file."""
    result = KeyResult(key="data/t.dat", outcome=outcome, reason=reason, bytes=size)
    rig.stores.outcomes.record(with_, FilePage("disk", [1], ["data/t.dat"]), [result])


def outcome_of_file(rig: Rig) -> str | None:
    [file] = stored_files(rig.db)
    return file.outcome


def settle(rig: Rig, with_: WriteToken) -> Settlement | None:
    """Settle the mark and return how."""
    marks = rig.stores.settlements.progress(with_, [T])
    rig.stores.settlements.settle(with_, marks, GRACE)
    return marks[0].settlement if marks else None


def test_a_mark_is_quarantined_at_its_last_failure(rig: Rig) -> None:
    with_ = claim_mark(rig)
    record(rig, with_, KeyOutcome.FAILED, "AccessDenied")
    for failures in range(1, MAX_FAILURES):
        assert settle(rig, with_) is Settlement.FAILED
        row = rig.row(*T)
        assert (row.failures, row.quarantined_reason, row.last_error) == (failures, None, "AccessDenied")
    now = rig.now()

    settle(rig, with_)

    row = rig.row(*T)
    assert (row.state, row.failures, row.quarantined_reason) == (MarkState.CLAIMED, MAX_FAILURES, Reason.DELETE_FAILED)
    assert 0 <= row.next_try_at - now - POISON_RETRY_SECONDS * 1000 < 60_000
    assert settle(rig, with_) is None  # a quarantined mark waits


def test_a_prefix_is_listed_again_after_the_upload_grace(rig: Rig) -> None:
    with_ = claim_mark(rig, prefix="data/t/")
    record(rig, with_, KeyOutcome.DELETED)
    assert settle(rig, with_) is Settlement.SECOND_PASS

    row = rig.row(*T)
    assert (row.state, row.next_try_at - row.first_pass_at) == (MarkState.CLAIMED, GRACE * 1000)
    for seconds, due in ((GRACE - 60, []), (60, [T])):
        rig.later(seconds)
        late = token(rig, run=f"{seconds}")
        assert [m.ref for m in rig.stores.due_marks.take_second_pass(late, Ref("", ""), 10, GRACE)] == due
        rig.leases.free(late.lease)


def test_history_sums_both_listings_of_a_prefix(rig: Rig) -> None:
    with_ = claim_mark(rig, prefix="data/t/")
    record(rig, with_, KeyOutcome.DELETED, size=30)
    settle(rig, with_)

    assert settle(rig, with_) is Settlement.GONE

    [row] = rig.rows("mark_history")
    assert (row.kind, row.id, row.objects, row.bytes, row.batch) == ("dropped", "t", 1, 30, with_.batch)
    assert rig.count("mark") == 0


def test_an_outcome_never_moves_back(rig: Rig) -> None:
    with_, done = token(rig), (KeyOutcome.DELETED, KeyOutcome.HIDDEN, KeyOutcome.ABSENT, KeyOutcome.CHANGED)
    rig.stores.files.store(with_, [File("dropped", "t", "disk", f"data/{outcome}.dat", 1) for outcome in done])
    page = FilePage("disk", [1, 2, 3, 4], [f"data/{outcome}.dat" for outcome in done])
    rig.stores.outcomes.record(with_, page, [KeyResult("", outcome, bytes=1) for outcome in done])

    for late in (KeyOutcome.ABSENT, KeyOutcome.FAILED, KeyOutcome.DELETED):
        for size in (1, None):
            rig.stores.outcomes.record(with_, page, [KeyResult("", late, bytes=size)] * 4)

    assert [file.outcome for file in stored_files(rig.db)] == [*done]


def test_a_delete_that_was_throttled_or_failed_may_succeed_later(rig: Rig) -> None:
    with_ = claim_mark(rig)
    record(rig, with_, KeyOutcome.THROTTLED)
    assert (outcome_of_file(rig), settle(rig, with_)) == (None, Settlement.WAITING)
    assert rig.row(*T).state == MarkState.CLAIMED
    record(rig, with_, KeyOutcome.FAILED, "SlowDown")

    record(rig, with_, KeyOutcome.DELETED)

    assert (outcome_of_file(rig), settle(rig, with_)) == (KeyOutcome.DELETED, Settlement.GONE)
    assert rig.count("file_list") == 0


def test_a_changed_object_keeps_the_record_aside(rig: Rig) -> None:
    with_ = claim_mark(rig)
    record(rig, with_, KeyOutcome.CHANGED, "its ETag is another one")

    assert settle(rig, with_) is Settlement.CHANGED

    row = rig.row(*T)
    assert (row.state, row.quarantined_reason) == (MarkState.CLAIMED, Reason.CHANGED)
    assert (row.last_error, rig.count_files()) == ("its ETag is another one", 0)


def test_a_mark_is_not_settled_by_the_batch_before_it(rig: Rig) -> None:
    first = claim_mark(rig)
    rig.stores.files.drop(first, [T])
    progress = rig.stores.settlements.progress(first, [T])
    # An operator discarded it, and a restored copy of the owner marked the id again.
    rig.sql("DELETE FROM {}mark; DELETE FROM {}mark_history")
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=("data/t.dat",)))
    second = token(rig, run="run", number=1)
    claim(rig, second, "dropped", "t")

    rig.stores.settlements.settle(first, progress, GRACE)

    assert rig.row("dropped", "t").state == MarkState.CLAIMED
    assert rig.count("mark_history") == 0
