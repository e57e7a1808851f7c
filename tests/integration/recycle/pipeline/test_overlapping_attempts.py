"""An older attempt of a round that still works deletes nothing that the newer attempt kept or declared safe."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import LeaseLost, Ref
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.protection.errors import Invalid
from sexton.recycle.pipeline import active_lease, settle
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    adopt_order,
    attempt,
    hang_once,
    prefix_in_second_pass,
    throttle,
)
from tests.support.clock import Clock
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import GRACE, Rig, listing, put


def test_a_throttled_page_is_not_sent_after_a_take_over(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = prefix_in_second_pass(rig, root)
    busy, accepting = throttle(monkeypatch)
    with attempt(rig, order, 1) as errors:
        assert busy.wait(PATIENCE_SECONDS)
        rig.holds.place(Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="undelete"), 86_400)
        receipt = rig.recycler.adopt(order, 2, lambda: None)
        with pytest.raises(UndeleteUnsafe, match="may still delete objects"):
            ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
        rig.later(38)
        ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
        accepting.set()

    assert sum(receipt.kept.values()) == 1
    assert [type(e) for e in errors] == [LeaseLost]
    assert listing(root) == {"t/late.dat": 10}


@pytest.mark.parametrize("named", ["prefix", "keys"])
def test_a_registration_sees_a_request_sent_before_a_take_over(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(settle, "IN_FLIGHT_SECONDS", 2.0)
    root = rig.local(tmp_path / "v")
    order = prefix_in_second_pass(rig, root) if named == "prefix" else keys_tried_again(rig, root)
    sent, answering = hang_once(monkeypatch)
    waiting = threading.Event()

    def drop(after: Callable[..., object]) -> Callable[..., object]:
        def dropped(*arguments: object, second_pass: bool) -> object:
            page = after(*arguments, second_pass=second_pass)
            waiting.set()
            return page

        return dropped

    monkeypatch.setattr(rig.stores.files, "drop_unclaimed", drop(rig.stores.files.drop_unclaimed))
    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        waiting.clear()
        with attempt(rig, order, 2):
            assert waiting.wait(PATIENCE_SECONDS)
            with pytest.raises(Invalid, match="being deleted"):
                protect(rig, "job", "t/late.dat")
            answering.set()


def keys_tried_again(rig: Rig, root: Path) -> AdoptOrder:
    """Claim a key whose object has changed, and let an operator retry it."""
    rig.drop(root, "t/late.dat", "m", later=DUE_SECONDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalVault, "delete", changed)
        rig.round()
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    return adopt_order(rig)


def changed(_vault: LocalVault, keys: Sequence[str], _etags: Sequence[str] = ()) -> list[KeyResult]:
    return [KeyResult(key=key, outcome=KeyOutcome.CHANGED, reason="another ETag") for key in keys]


def test_a_retried_prefix_is_listed_again_after_the_upload_grace(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", changed)
        rig.round()
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    rig.later(5)

    rig.round()
    put(root, "t/late.dat")
    rig.later(GRACE + 1)
    rig.round()

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


@pytest.mark.slow
def test_an_undelete_is_refused_while_failed_deletes_are_retried(rig: Rig, root: Path) -> None:
    put(root, "t/dir/b.dat")
    rig.mark("dropped", NewMark(id="half", vault="disk", keys=("t/dir",)))
    rig.later(DUE_SECONDS)
    for _ in range(8):
        rig.round()
    rig.holds.place(Hold(instance="shop", scope="instance", reason="undelete"), 86_400)
    assert rig.row("dropped", "half").quarantined_reason == "DELETE_FAILED"

    with pytest.raises(UndeleteUnsafe, match="quarantine discard shop dropped/half"):
        ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")


def test_a_registration_under_a_prefix_in_second_pass_is_refused(rig: Rig, root: Path) -> None:
    prefix_in_second_pass(rig, root)

    with pytest.raises(Invalid, match="being deleted"):
        protect(rig, "job", "t/late.dat")


def test_a_second_pass_that_a_fault_ended_is_made_again(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    rig.round()
    put(root, "t/late.dat")
    rig.later(GRACE + 1)

    def away(_vault: LocalVault, _keys: Sequence[str], _etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        raise VaultFault("disk", "DENIED", "no longer allowed")

    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", away)
        rig.round()
    assert (listing(root), rig.count_files()) == ({"t/late.dat": 10}, 0)
    rig.round()

    assert (listing(root), rig.count("mark"), rig.count_files()) == ({}, 0, 0)
