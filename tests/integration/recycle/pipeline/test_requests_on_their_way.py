"""A request on its way, for which nobody waits, may delete still: undelete and discard wait until it has ended."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import Ref
from sexton.marks.sql.leases import TTL_SECONDS, may_be_deleting
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import IN_FLIGHT_SECONDS, KeyOutcome, KeyResult
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    Delete,
    attempt,
    hang_once,
    prefix_in_second_pass,
    range_order,
)
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing, put
from tests.support.unpaced import Unpaced

WEEK = 7 * 86_400
HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="undelete")


def test_undelete_waits_for_a_request_after_a_release(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker sends no heartbeats; an operator pauses: the activity times out, the workflow releases the lease."""
    order = prefix_in_second_pass(rig, root)
    opened = rig.rounds.open("shop", "second round", None, rig.policy)
    sent, answering = hang_once(monkeypatch)
    safe = True
    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        rig.rounds.release(opened, "paused")  # workflows/recycle.py on_pause
        rig.holds.place(HOLD, WEEK)
        try:
            ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
        except UndeleteUnsafe:
            safe = False
        put(root, "t/late.dat")  # undeleted
        answering.set()

    assert not safe or listing(root) == {"t/late.dat": 10}


def test_discard_waits_for_a_request_after_a_release(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = prefix_in_second_pass(rig, root)
    opened = rig.rounds.open("shop", "second round", None, rig.policy)
    sent, answering = hang_once(monkeypatch)
    discarded = True
    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        rig.rounds.release(opened, "paused")
        try:
            QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files must stay")
        except BadInput:
            discarded = False
        answering.set()

    assert not discarded or listing(root) == {"t/late.dat": 10}


def test_discard_of_failed_deletes_waits_for_a_replaced_worker(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(root, "a.dat", "m")
    rig.sql("UPDATE {}mark SET failures = 9 WHERE id = 'm'")
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    real: Delete = LocalVault.delete
    sent, answering = threading.Event(), threading.Event()

    def delete(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        if not sent.is_set():
            sent.set()
            assert answering.wait(PATIENCE_SECONDS)
            return real(vault, keys, etags)
        return [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="AccessDenied") for key in keys]

    monkeypatch.setattr(LocalVault, "delete", delete)

    def older_attempt() -> None:
        with suppress(SextonError):
            rig.recycler.recycle(order, 1, lambda: None)

    older = threading.Thread(target=older_attempt)
    older.start()
    assert sent.wait(PATIENCE_SECONDS)
    rig.recycler.recycle(order, 2, lambda: None)
    assert rig.row("dropped", "m").quarantined_reason == "DELETE_FAILED"
    discarded = True
    try:
        QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files must stay")
    except BadInput:
        discarded = False
    if discarded:
        protect(rig, "job", "a.dat")  # accepted: a sync job needs it from now on
    answering.set()
    older.join(PATIENCE_SECONDS)

    assert not discarded or listing(root) == {"a.dat": 10}


def test_undelete_waits_for_a_task_that_spark_runs_twice(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the driver has lost an executor: its task is repeated, and the round ends while its page is on its way."""
    rig.drop(root, "a.dat", "m")
    monkeypatch.setattr(ThreadDeleter, "leaves_requests", True)  # as Spark's
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    sent, answering = hang_once(monkeypatch)
    open_batch, tokens = rig.stores.batches.open, []

    def capture(*order_and_attempt: object) -> object:
        tokens.append(open_batch(*order_and_attempt))  # type: ignore[arg-type]
        return tokens[0]

    monkeypatch.setattr(rig.stores.batches, "open", capture)

    def lost_executor() -> None:
        token = tokens[0][0]
        lease = ActiveLease(rig.leases, rig.controls, token.lease, lambda: None)
        deleter = ThreadDeleter(rig.stores, rig.vaults, 1, Unpaced())
        with suppress(SextonError), deleter.begin(token, lease) as deletion:
            deletion.release_up_to(1)
            deletion.finish()

    lost = threading.Thread(target=lost_executor)

    def visit(point: str) -> None:
        if point == "claim.committed":
            lost.start()
            assert sent.wait(PATIENCE_SECONDS)

    with crash_points.installed(visit):
        rig.recycler.recycle(order, 1, lambda: None)
    assert rig.row("dropped", "m") is None
    rig.leases.free(order.lease)  # the round ends
    safe = True
    try:
        ensure_undelete_is_safe(rig.db, "shop", "disk", keys=("a.dat",))
    except UndeleteUnsafe:
        safe = False
    put(root, "a.dat")  # undeleted
    answering.set()
    lost.join(PATIENCE_SECONDS)

    assert not safe or listing(root) == {"a.dat": 10}


def test_a_request_may_be_deleting_after_its_lease_expired(rig: Rig) -> None:
    rig.leases.acquire("shop", "recycle", "a")  # its worker was killed

    deleting = []
    for seconds in (TTL_SECONDS, int(IN_FLIGHT_SECONDS) + 1):
        rig.later(seconds)
        with rig.db.read() as c:
            deleting.append(may_be_deleting(rig.db, c, "shop"))

    assert deleting == [True, False]
