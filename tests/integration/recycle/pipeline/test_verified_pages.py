"""Directly before a page is sent, stops, lease, token and its files are verified, by answers that are not old."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sexton.kernel.errors import SextonError
from sexton.marks.model import ClaimRequest, ClaimResult, WriteToken
from sexton.operators.controls.model import ControlKind, Halted
from sexton.recycle.pipeline import active_lease, delete
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ClaimId, KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, prefix_in_second_pass, range_order
from tests.support.clock import Clock
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing, put
from tests.support.unpaced import Unpaced


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
    lease = ActiveLease(rig.leases, rig.controls, token.lease, lambda: None)
    try:
        with ThreadDeleter(rig.stores, vaults, 1, Unpaced()).begin(token, lease) as deletion:  # type: ignore[arg-type]
            deletion.release_up_to(1_000)
            deletion.finish()
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
        put(root, "t/late.dat")  # written again: its mark is gone
        vaults.resumed.set()
        lost_executors[0].join(PATIENCE_SECONDS)
        return settled

    monkeypatch.setattr(rig.stores.claims, "ask_keepers_outside_claim", ask_then_lose)
    monkeypatch.setattr(rig.stores.settlements, "settle", settle_then_resume)
    rig.recycler.adopt(order, 1, lambda: None)

    assert [type(e).__name__ for e in errors] == ["LeaseLost"]
    assert (listing(root), rig.row("dropped", "m")) == ({"t/late.dat": 10}, None)


def test_a_repeated_task_sends_no_page_of_which_a_part_is_done(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, vaults = rig.local(tmp_path / "v"), WaitingVaults(rig.vaults)
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


def test_a_stop_is_seen_although_the_database_is_slow(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = one_key_due(rig, tmp_path)
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
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = one_key_due(rig, tmp_path)
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


def one_key_due(rig: Rig, tmp_path: Path) -> Path:
    """Let a mark of one key be due; return the directory of its vault."""
    root = rig.local(tmp_path / "v")
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    return root
