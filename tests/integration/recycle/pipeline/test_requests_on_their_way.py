"""A request on its way, for which nobody waits, may delete still: undelete and discard wait until it has ended.

A batch that is adopted is open again, and Spark may run a task twice: such attempts leave requests too.
"""

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
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.settle import Settler
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import IN_FLIGHT_SECONDS, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    adopt_order,
    attempt,
    hang_once,
    is_undelete_safe,
    prefix_in_second_pass,
    range_order,
    replaced_worker,
    work_off,
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
    sent, answering = hang_once(monkeypatch, then_refuse=True)

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


def claimed_by_a_closed_batch(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> AdoptOrder:
    """Claim a key in a round whose vault has a fault before the delete: its batch is closed, its mark stays claimed."""
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)

    def fail(_vault: LocalVault, _keys: Sequence[str], _etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        raise VaultFault("disk", "UNAUTHORIZED", "the credentials were wrong for a moment")

    with monkeypatch.context() as faulty:
        faulty.setattr(LocalVault, "delete", fail)
        rig.round()
    assert rig.row("dropped", "m").state == "CLAIMED"
    assert rig.count("batch", state="OPEN") == 0
    rig.later(61)
    return adopt_order(rig)


def test_undelete_waits_for_a_request_of_a_replaced_adoption(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = claimed_by_a_closed_batch(rig, rig.local(tmp_path / "v"), monkeypatch)
    with replaced_worker(rig, order, monkeypatch):
        assert rig.row("dropped", "m") is None
        assert not is_undelete_safe(rig, "a.dat")

    assert rig.count("batch", state="OPEN") == 0


def test_discard_waits_for_a_request_of_a_replaced_adoption(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = claimed_by_a_closed_batch(rig, rig.local(tmp_path / "v"), monkeypatch)
    rig.sql("UPDATE {}mark SET failures = 9 WHERE id = 'm'")
    sent, answering = hang_once(monkeypatch, then_refuse=True)
    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        work_off(rig, order, 2)
        assert rig.row("dropped", "m").quarantined_reason == "DELETE_FAILED"
        with pytest.raises(BadInput, match="a request may still delete files"):
            QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files must stay")
        answering.set()


class Died(BaseException):
    """The Spark worker of the first attempt was killed."""


def die_after_claim(point: str) -> None:
    if point == "claim.committed":
        raise Died


def test_undelete_waits_for_tasks_of_a_take_over_on_spark(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(rig.local(tmp_path / "v"), "a.dat", "m")
    monkeypatch.setattr(ThreadDeleter, "leaves_requests", True)  # as Spark's
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    with crash_points.installed(die_after_claim), suppress(Died):
        rig.recycler.recycle(order, 1, lambda: None)
    drop_unclaimed, settled = Settler.drop_unclaimed, threading.Event()

    def take_over_slowly(settler: Settler, work: object) -> None:
        drop_unclaimed(settler, work)  # type: ignore[arg-type]
        rig.later(38)  # earlier jobs of this take-over took so long

    def undelete_while_settling(point: str) -> None:
        if point == "marks.removed" and not settled.is_set():
            settled.set()
            assert rig.row("dropped", "m") is None
            assert not is_undelete_safe(rig, "a.dat")

    monkeypatch.setattr(Settler, "drop_unclaimed", take_over_slowly)
    with crash_points.installed(undelete_while_settling):
        rig.recycler.recycle(order, 2, lambda: None)

    assert settled.is_set()
