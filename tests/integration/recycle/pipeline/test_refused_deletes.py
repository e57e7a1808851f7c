"""What operators are told of marks whose files a store refused to delete."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.model import DueMark, Expansion, Place, Ref
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline.sql import due_marks, settlement
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, adopt_order
from tests.integration.recycle.pipeline.refusing import refused_round, refusing
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.files import stored_files
from tests.support.locks import lock_waiters
from tests.support.rig import DAY, GRACE, Rig, listing, put

HOLD = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="a test")


class NamingOwner(SqlOwner):
    """An owner that names the files of its marks."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        places = (Place(vault="disk", keys=("k0.dat", "k1.dat")),)
        return {mark.ref: Expansion(places=places, fence=False) for mark in marks}


def change(name: str) -> Any:
    """Return a replacement of ``LocalVault.delete`` that finds another object under one key."""
    delete = refusing(name)

    def find_changed(*arguments: Any) -> list[KeyResult]:
        return [r._replace(outcome=KeyOutcome.CHANGED) if r.key == name else r for r in delete(*arguments)]

    return find_changed


def test_a_hold_counts_marks_whose_deletes_are_tried_again(rig: Rig, root: Path) -> None:
    rig.drop(root, "t/a.dat", "m", later=DUE_SECONDS)
    refused_round(rig, "t/a.dat")

    _, claimed = rig.holds.place(HOLD, DAY)
    rig.round()

    assert (claimed, listing(root)) == (1, {})


def test_an_undelete_needs_all_files_that_the_owner_names(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "k0.dat")
    put(root, "k1.dat")
    rig.recycler = rig.recycler_of(NamingOwner(rig.db, rig.registry))
    rig.mark("dropped", NewMark(id="m", vault=None))
    rig.later(DUE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", change("k1.dat"))
        rig.round()
    QuarantineStore(rig.db).retry("shop", ref=Ref("dropped", "m"))
    put(root, "k0.dat")
    rig.later(GRACE + 1)
    refused_round(rig, "k0.dat")
    assert [file.key for file in stored_files(rig.db)] == ["k1.dat"]

    with pytest.raises(UndeleteUnsafe, match="mark dropped m"):
        ensure_undelete_is_safe(rig.db, "shop", "disk", keys=("k0.dat",))


def test_an_undelete_is_safe_beside_lists_of_other_marks(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "MAX_FAILURES", 1)
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    put(root, "u/b.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"), NewMark(id="n", vault="disk", keys=("u/b.dat",)))
    rig.later(DUE_SECONDS)
    refused_round(rig, "u/b.dat")
    rig.holds.place(HOLD, DAY)

    rig.rounds.open("shop", "the next round", None, rig.policy)

    ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")


def test_a_discard_and_a_second_pass_lock_in_one_order(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mark in ("m1", "m2"):
        put(root, f"{mark}/a.dat")
        rig.mark("dropped", NewMark(id=mark, vault="disk", prefix=f"{mark}/"))
    rig.later(DUE_SECONDS)
    rig.round()
    for name in ("m1/late1.dat", "m1/late2.dat", "m2/late.dat"):
        put(root, name)
    rig.later(GRACE + 1)
    refused_round(rig, "m1/late2.dat", "m2/late.dat")
    rig.later(GRACE + 60)
    order, mark_is_locked, files_are_carried = adopt_order(rig), threading.Event(), threading.Event()
    sums, carry = QuarantineStore._file_sums, due_marks.carry_over

    def wait_for_the_other(*arguments: Any) -> Any:
        mark_is_locked.set()
        eventually(
            "the second pass has its files, or waits for the mark",
            lambda: files_are_carried.is_set() or lock_waiters(rig.db),
        )
        return sums(*arguments)

    def carry_slowly(*arguments: Any) -> None:
        carry(*arguments)
        files_are_carried.set()
        eventually("the discard is done, or waits for files", lambda: discarding.done() or lock_waiters(rig.db))

    monkeypatch.setattr(QuarantineStore, "_file_sums", wait_for_the_other)
    monkeypatch.setattr(due_marks, "carry_over", carry_slowly)
    with ThreadPoolExecutor(1) as thread:
        discarding = thread.submit(QuarantineStore(rig.db).discard, "shop", Ref("dropped", "m2"), "its files stay")
        assert mark_is_locked.wait(PATIENCE_SECONDS)
        rig.recycler.adopt(order, 1, lambda: None)

    assert discarding.result().id == "m2"
    assert listing(root).keys() == {"m2/late.dat"}
