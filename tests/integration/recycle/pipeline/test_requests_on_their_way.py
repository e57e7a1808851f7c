"""A request on its way, for which nobody waits, may delete still: undelete and discard wait until it has ended.

A batch that is adopted is open again, and Spark may run a task twice: such attempts leave requests too.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import Ref
from sexton.marks.sql.leases import TTL_SECONDS, may_be_deleting
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.pipeline.settle import Settler
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.model import IN_FLIGHT_SECONDS
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    adopt_order,
    delete_claimed,
    hanging_request,
    prefix_in_second_pass,
    range_order,
    replaced_worker,
    stuck_attempt,
)
from tests.integration.recycle.pipeline.refusing import faulty_round
from tests.support.crashes import Crash, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig
from tests.support.undeletes import what_deletes

OrderOf = Callable[[Rig, Path], AdoptOrder | RangeOrder]


def test_undelete_and_discard_wait_for_a_request_after_a_release(rig: Rig, root: Path) -> None:
    """The worker sends no heartbeats; an operator pauses: the activity times out, the workflow releases the lease."""
    order = prefix_in_second_pass(rig, root)
    opened = rig.rounds.open("shop", "second round", None, rig.policy)
    with stuck_attempt(rig, order, hanging_request()):
        rig.rounds.release(opened, "paused")  # workflows/recycle.py on_wait
        with pytest.raises(BadInput):
            discard(rig)

        assert what_deletes(rig, "t/")


def discard(rig: Rig) -> None:
    QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files must stay")


def due_key(rig: Rig, root: Path) -> RangeOrder:
    """Let the mark of a key be due; return the order of its range."""
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    return range_order(rig)


def test_undelete_waits_for_a_task_that_spark_runs_twice(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the driver has lost an executor: its task is repeated, and the round ends while its page is on its way."""
    monkeypatch.setattr(ThreadDeleter, "leaves_requests", True)  # as Spark's
    order = due_key(rig, root)
    open_batch, tokens = rig.stores.batches.open, []

    def capture(*order_and_attempt: object) -> object:
        tokens.append(open_batch(*order_and_attempt))  # type: ignore[arg-type]
        return tokens[0]

    monkeypatch.setattr(rig.stores.batches, "open", capture)

    def lost_executor() -> None:
        with suppress(SextonError):
            delete_claimed(rig, tokens[0][0], 1)

    lost = threading.Thread(target=lost_executor)

    def visit(point: str) -> None:
        if point == "claim.committed":
            lost.start()
            assert request.reached.wait(PATIENCE_SECONDS)

    with hanging_request() as request, crash_points.installed(visit):
        rig.recycler.recycle(order, 1, lambda: None)
        assert rig.row("dropped", "m") is None
        rig.leases.free(order.lease)  # the round ends
        said = what_deletes(rig, "a.dat")
    lost.join(PATIENCE_SECONDS)

    assert "may still delete objects" in said


def test_a_request_may_be_deleting_after_its_lease_expired(rig: Rig) -> None:
    rig.leases.acquire("shop", "recycle", "a")  # its worker was killed

    def is_deleting() -> bool:
        with rig.db.read() as c:
            return may_be_deleting(rig.db, c, "shop")

    rig.later(TTL_SECONDS)
    assert is_deleting()
    rig.later(int(IN_FLIGHT_SECONDS) + 1)
    assert not is_deleting()
    rig.set_year_ahead("lease", "expires_at")
    assert not is_deleting()


def claimed_by_a_closed_batch(rig: Rig, root: Path) -> AdoptOrder:
    """Claim a key in a round whose vault has a fault before the delete: its batch is closed, its mark stays claimed."""
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    faulty_round(rig)
    assert rig.row("dropped", "m").state == "CLAIMED"
    assert rig.count("batch", state="OPEN") == 0
    rig.later(61)
    return adopt_order(rig)


@pytest.mark.parametrize("order_of", [due_key, claimed_by_a_closed_batch])
def test_discard_of_failed_deletes_waits_for_a_replaced_worker(rig: Rig, root: Path, order_of: OrderOf) -> None:
    order = order_of(rig, root)
    rig.sql("UPDATE {}mark SET failures = 9 WHERE id = 'm'")
    with replaced_worker(rig, order, then_refuse=True):
        assert rig.row("dropped", "m").quarantined_reason == "DELETE_FAILED"
        with pytest.raises(BadInput, match="a request may still delete files"):
            discard(rig)


def test_undelete_waits_for_a_request_of_a_replaced_adoption(rig: Rig, root: Path) -> None:
    order = claimed_by_a_closed_batch(rig, root)
    with replaced_worker(rig, order):
        assert rig.row("dropped", "m") is None
        assert what_deletes(rig, "a.dat")

    assert rig.count("batch", state="OPEN") == 0


def test_undelete_waits_for_tasks_of_a_take_over_on_spark(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ThreadDeleter, "leaves_requests", True)  # as Spark's
    order = due_key(rig, root)
    with crash_points.installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.recycler.recycle(order, 1, lambda: None)
    drop_unclaimed, settled = Settler.drop_unclaimed, threading.Event()

    def take_over_slowly(settler: Settler, work: object) -> None:
        drop_unclaimed(settler, work)  # type: ignore[arg-type]
        rig.later(38)  # earlier jobs of this take-over took so long

    def undelete_while_settling(point: str) -> None:
        if point == "marks.removed" and not settled.is_set():
            settled.set()
            assert rig.row("dropped", "m") is None
            assert what_deletes(rig, "a.dat")

    monkeypatch.setattr(Settler, "drop_unclaimed", take_over_slowly)
    with crash_points.installed(undelete_while_settling):
        rig.recycler.recycle(order, 2, lambda: None)

    assert settled.is_set()
