"""An older attempt of a round that still works deletes nothing that the newer attempt kept or declared safe.

Directly before a page is sent, stops, lease, token and its files are verified, by answers that are not old.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sexton.kernel.errors import SextonError, TooManyObjects
from sexton.marks.model import ClaimRequest, ClaimResult, LeaseLost, Ref, WriteToken
from sexton.operators.controls.model import ControlKind, Halted
from sexton.operators.holds.model import Hold
from sexton.protection.model import Invalid
from sexton.recycle.pipeline import active_lease, adopt, delete, settle
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ClaimId, KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    adopt_order,
    attempt,
    claimed_prefix,
    delete_claimed,
    hanging_request,
    prefix_in_second_pass,
    range_order,
    second_pass_due,
    stuck_attempt,
    throttling,
    work_off,
)
from tests.integration.recycle.pipeline.refusing import faulty_round, refused_round
from tests.support.clock import Clock
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import GRACE, Rig, listing, put
from tests.support.undeletes import what_deletes


def test_a_throttled_page_is_not_sent_after_a_take_over(rig: Rig, root: Path) -> None:
    order = prefix_in_second_pass(rig, root)
    with stuck_attempt(rig, order, throttling()) as errors:
        assert "the round that runs may delete its files" in what_deletes(rig, "t/")  # and holds them
        receipt = rig.recycler.adopt(order, 2, lambda: None)
        assert "may still delete objects" in what_deletes(rig, "t/")
        rig.leases.free(order.lease)
        rig.later(38)
        assert what_deletes(rig, "t/") == ""

    assert sum(receipt.kept.values()) == 1
    assert [type(e) for e in errors] == [LeaseLost]
    assert listing(root) == {"t/late.dat": 10}


@pytest.mark.parametrize("named", ["prefix", "keys"])
def test_a_registration_sees_a_request_sent_before_a_take_over(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(settle, "IN_FLIGHT_SECONDS", 2.0)
    order = prefix_in_second_pass(rig, root) if named == "prefix" else keys_tried_again(rig, root)
    waiting, drop = threading.Event(), rig.stores.files.drop_unclaimed

    def drop_then_wait(*arguments: Any, second_pass: bool) -> object:
        page = drop(*arguments, second_pass=second_pass)
        waiting.set()
        return page

    monkeypatch.setattr(rig.stores.files, "drop_unclaimed", drop_then_wait)
    with stuck_attempt(rig, order, hanging_request()):
        waiting.clear()
        with attempt(rig, order, 2):
            assert waiting.wait(PATIENCE_SECONDS)
            with pytest.raises(Invalid, match="being deleted"):
                protect(rig, "job", "t/late.dat")


def keys_tried_again(rig: Rig, root: Path) -> AdoptOrder:
    """Claim a key whose object has changed, and let an operator retry it."""
    rig.drop(root, "t/late.dat", "m", later=DUE_SECONDS)
    refused_round(rig, "t/late.dat", outcome=KeyOutcome.CHANGED)
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    return adopt_order(rig)


def test_a_retried_prefix_is_listed_again_after_the_upload_grace(rig: Rig, root: Path) -> None:
    claimed_prefix(rig, root, "t/a.dat")
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))

    rig.round(after=5)
    put(root, "t/late.dat")
    rig.round(after=GRACE + 1)

    assert listing(root) == {}


def test_a_stop_is_seen_after_a_slow_proof_of_the_vault(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    real, clock = rig.vaults.get, Clock()

    def get(instance: str, name: str) -> object:
        if threading.current_thread().name.startswith("delete"):
            rig.controls.put(ControlKind.STOP, "shop", "test")
            clock.sleep(5.5)  # longer than a renewal is trusted
        return real(instance, name)

    monkeypatch.setattr(active_lease, "time", clock)
    monkeypatch.setattr(rig.vaults, "get", get)
    with pytest.raises(Exception, match="stop"):
        rig.round()

    assert listing(root) == {"a.dat": 10}


def test_a_second_pass_that_a_fault_ended_is_made_again(rig: Rig, root: Path) -> None:
    second_pass_due(rig, root)
    with pytest.raises(Invalid, match="being deleted"):
        protect(rig, "job", "t/late.dat")

    faulty_round(rig)
    assert (listing(root), rig.count_files()) == ({"t/late.dat": 10}, 0)
    rig.round()
    assert listing(root) == {}
    rig.later(GRACE + 1)  # it found an object: it looks once more
    rig.round()

    assert (rig.count("mark"), rig.count_files()) == (0, 0)


class WaitingVaults:
    """Vaults that are proved only when ``resumed`` is set; ``reading``: a page has been read and waits."""

    def __init__(self, vaults: Any) -> None:
        self._vaults, self.reading, self.resumed = vaults, threading.Event(), threading.Event()

    def get(self, instance: str, name: str) -> Any:
        self.reading.set()
        assert self.resumed.wait(PATIENCE_SECONDS)
        return self._vaults.get(instance, name)

    def name_claim(self, instance: str, name: str, claim: ClaimId) -> None:
        self._vaults.name_claim(instance, name, claim)

    def confirm(self, instance: str, name: str) -> None:
        """Trust the vault."""


def delete_late(rig: Rig, vaults: WaitingVaults, token: WriteToken, errors: list[SextonError]) -> None:
    """Delete what was claimed, as an executor that Spark has lost may; note how that ends."""
    try:
        delete_claimed(rig, token, 1_000, vaults)
    except SextonError as e:
        errors.append(e)


def test_a_task_that_spark_repeated_sends_no_page_again(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = prefix_in_second_pass(rig, root)
    vaults = WaitingVaults(rig.vaults)
    ask, settle = rig.stores.claims.ask_keepers_outside_claim, rig.stores.settlements.settle
    lost_executors: list[threading.Thread] = []
    errors: list[SextonError] = []

    def ask_then_lose(token: WriteToken, candidates: Any, files_after: int) -> Any:
        answers = ask(token, candidates, files_after)
        if not lost_executors:
            lost_executors.append(threading.Thread(target=delete_late, args=(rig, vaults, token, errors)))
            lost_executors[0].start()
            assert vaults.reading.wait(PATIENCE_SECONDS)
        return answers

    def settle_then_resume(*arguments: Any) -> Any:
        settled = settle(*arguments)
        put(root, "t/late.dat")  # written again: the next look is not due yet
        vaults.resumed.set()
        lost_executors[0].join(PATIENCE_SECONDS)
        return settled

    monkeypatch.setattr(rig.stores.claims, "ask_keepers_outside_claim", ask_then_lose)
    monkeypatch.setattr(rig.stores.settlements, "settle", settle_then_resume)
    rig.recycler.adopt(order, 1, lambda: None)

    assert [type(e).__name__ for e in errors] == ["LeaseLost"]
    assert (listing(root), rig.row("dropped", "m").state) == ({"t/late.dat": 10}, "CLAIMED")


def test_a_repeated_task_sends_no_page_of_which_a_part_is_done(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vaults = WaitingVaults(rig.vaults)
    for key in ("a", "b"):
        rig.drop(root, key, key)
    rig.later(DUE_SECONDS)
    order, claim, real = range_order(rig), rig.stores.claims.claim, LocalVault.delete
    errors: list[SextonError] = []
    requests: list[Sequence[str]] = []

    def claim_then_lose(request: ClaimRequest) -> ClaimResult:
        result = claim(request)
        lost_executor = threading.Thread(target=delete_late, args=(rig, vaults, request.token, errors))
        lost_executor.start()
        assert vaults.reading.wait(PATIENCE_SECONDS)
        lost_executors.append(lost_executor)
        return result

    def throttle_a_then_fail(
        vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = (), *more: Any
    ) -> Sequence[KeyResult]:
        requests.append(keys)
        if len(requests) == 2:
            raise VaultFault("disk", "AWAY", "a test")
        results = real(vault, [key for key in keys if key != "a"], etags[1:], *more)
        return [KeyResult("a", KeyOutcome.THROTTLED), *results]

    lost_executors: list[threading.Thread] = []
    with monkeypatch.context() as patch:
        patch.setattr(rig.stores.claims, "claim", claim_then_lose)
        patch.setattr(LocalVault, "delete", throttle_a_then_fail)
        rig.recycler.recycle(order, 1, lambda: None)
    put(root, "b")  # undeleted: its mark is gone
    vaults.resumed.set()
    lost_executors[0].join(PATIENCE_SECONDS)

    assert (requests, rig.row("dropped", "b")) == ([["a", "b"], ["a"]], None)
    assert (listing(root).keys(), [type(e).__name__ for e in errors]) == ({"a", "b"}, ["LeaseLost"])


def test_a_stop_is_seen_although_the_database_is_slow(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    real, clock = rig.stores.batches.ensure_latest, Clock()

    def answer_slowly(token: WriteToken, files: Sequence[int]) -> None:
        rig.controls.put(ControlKind.STOP, "shop", "test")
        clock.sleep(6)
        real(token, files)

    monkeypatch.setattr(rig.stores.batches, "ensure_latest", answer_slowly)
    for module in (delete, active_lease):
        monkeypatch.setattr(module, "time", clock)
    with pytest.raises(Halted):
        rig.recycler.recycle(range_order(rig), 1, lambda: None)

    assert listing(root) == {"a.dat": 10}


def test_a_page_is_tried_later_while_the_database_is_slow(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    real, slow_answers, clock = rig.stores.batches.ensure_latest, list(range(delete.VERIFY_TRIES)), Clock()

    def answer_slowly(token: WriteToken, files: Sequence[int]) -> None:
        if slow_answers:
            slow_answers.pop()
            clock.sleep(delete.VERIFIED_SECONDS + 0.1)
        real(token, files)

    monkeypatch.setattr(rig.stores.batches, "ensure_latest", answer_slowly)
    monkeypatch.setattr(clock, "monotonic", lambda: clock.now + time.monotonic())
    monkeypatch.setattr(delete, "time", clock)
    receipt = rig.recycler.recycle(range_order(rig), 1, lambda: None)

    assert (slow_answers, listing(root), receipt.faults) == ([], {}, {})


def test_many_claimed_objects_are_left_to_another_queue(rig: Rig, root: Path) -> None:
    rig.drop_files(root, "m", "a.dat", "b.dat")
    rig.later(DUE_SECONDS)
    ranged = range_order(rig).model_copy(update={"most_objects": 1})
    for number in (1, 2):  # the second attempt finds what the first one has claimed
        with pytest.raises(TooManyObjects, match="more than 1 objects are listed"):
            work_off(rig, ranged, number)
    claimed = rig.count("mark", state="CLAIMED")
    rig.later(3_600)  # the lease has ended: another round adopts what is claimed
    adopting = adopt_order(rig).model_copy(update={"most_objects": 1})
    with pytest.raises(TooManyObjects):
        work_off(rig, adopting, 1)
    work_off(rig, adopting.model_copy(update={"attempts": 100, "most_objects": None}), 1)

    assert (claimed, rig.count("mark"), listing(root)) == (1, 0, {})


def test_only_objects_that_are_deleted_count_as_many(rig: Rig, root: Path) -> None:
    rig.drop_files(root, "m", "held/a.dat", "held/b.dat", prefix="held/")
    rig.drop(root, "c.dat", "n", later=DUE_SECONDS)
    rig.holds.place(Hold(instance="shop", scope="mark", mark_kind="dropped", mark_id="m", reason="audit"), 60)

    receipt = rig.recycler.recycle(range_order(rig).model_copy(update={"most_objects": 1}), 1, lambda: None)

    assert (receipt.claimed, listing(root)) == (1, {"held/a.dat": 10, "held/b.dat": 10})


def test_objects_of_several_second_passes_count_together(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "SECOND_PASS_MARKS", 1)
    for id_ in ("s", "t", "u"):
        rig.drop_files(root, id_, f"{id_}/a.dat", prefix=f"{id_}/")
    rig.later(DUE_SECONDS)
    rig.round()
    for id_ in ("s", "t", "u"):
        put(root, f"{id_}/b.dat")
    rig.later(GRACE + 1)
    order, waits = adopt_order(rig), list[float]()
    monkeypatch.setattr(active_lease.ActiveLease, "wait", lambda _, seconds: waits.append(seconds))

    with pytest.raises(TooManyObjects):
        work_off(rig, order.model_copy(update={"most_objects": 2}), 1)
    left = listing(root)
    work_off(rig, order.model_copy(update={"attempts": 100}), 1)

    assert (left, listing(root)) == ({"u/b.dat": 10}, {})
    assert waits == []  # the first attempt sent no request for the objects that it left


def test_many_objects_of_a_second_pass_are_left_to_another_queue(rig: Rig, root: Path) -> None:
    claimed_prefix(rig, root)
    for key in ("t/b.dat", "t/c.dat"):
        put(root, key)
    rig.later(GRACE + 1)
    order = adopt_order(rig)

    with pytest.raises(TooManyObjects):
        work_off(rig, order.model_copy(update={"most_objects": 1}), 1)

    assert listing(root) == {"t/b.dat": 10, "t/c.dat": 10}
