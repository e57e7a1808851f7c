"""A second pass deletes only files that keepers were asked about, and no mark waits for it longer than it must."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import DueMark, Expansion, File, FilePage, Place, Ref, WriteToken
from sexton.operators.holds.model import Hold
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import Heartbeat
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline import adopt
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    Delete,
    adopt_order,
    claimed_prefix,
    prefix_in_second_pass,
)
from tests.support.claims import claim, token
from tests.support.files import stored_files
from tests.support.rig import DAY, GRACE, Rig, listing, put


def test_a_later_chunk_deletes_no_file_of_an_earlier_one(
    rig: Rig, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt, "SECOND_PASS_MARKS", 1)
    other = rig.local(tmp_path / "w", "other")
    put(root, "t/a.dat")
    put(other, "u/a.dat")
    rig.mark("dropped", NewMark(id="m1", vault="disk", prefix="t/"), NewMark(id="m2", vault="other", prefix="u/"))
    rig.round(after=DUE_SECONDS)
    put(root, "t/late.dat")
    put(other, "u/late.dat")
    rig.later(GRACE + 1)
    order = adopt_order(rig)
    real: Delete = LocalVault.delete
    requests: list[str] = []

    def fail_first(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        requests.append(vault.spec.name)
        if len(requests) == 1:
            raise VaultFault("disk", "DENIED", "for a moment")
        return real(vault, keys, etags)

    take = rig.stores.due_marks.take_second_pass
    hold = Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="x")

    def hold_between(token: WriteToken, after: Ref, limit: int, grace: int) -> Sequence[DueMark]:
        if after.id == "m1":
            rig.holds.place(hold, DAY)
        return take(token, after, limit, grace)

    monkeypatch.setattr(LocalVault, "delete", fail_first)
    monkeypatch.setattr(rig.stores.due_marks, "take_second_pass", hold_between)
    rig.recycler.adopt(order, 1, lambda: None)

    assert requests == ["disk", "other"]
    assert (listing(root), listing(other)) == ({"t/late.dat": 10}, {})
    assert rig.count_files() == 0


@pytest.mark.parametrize("column", ["next_try_at", "claimed_at"])
def test_a_clock_that_was_ahead_delays_no_second_pass(rig: Rig, root: Path, column: str) -> None:
    claimed_prefix(rig, root)
    put(root, "t/late.dat")
    rig.set_year_ahead("mark", column)
    for _ in range(3):
        rig.round(after=DAY)

    assert (listing(root), rig.row("dropped", "m")) == ({}, None)


def test_a_moved_mark_takes_its_done_files_along(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"), NewMark(id="n", vault="disk", keys=("n.dat",)))
    first = token(rig)
    claim(rig, first, "dropped", "n", "m")
    for key in ("t/b", "t/c"):
        rig.stores.files.store(first, [File("dropped", "m", "disk", key, 1)])
    outcomes = (KeyOutcome.FAILED, KeyOutcome.DELETED, KeyOutcome.ABSENT)
    page = FilePage("disk", [1, 2, 3], ["n.dat", "t/a", "t/b"])
    rig.stores.outcomes.record(first, page, [KeyResult("", outcome) for outcome in outcomes])
    rig.sql("UPDATE {}mark SET first_pass_at = claimed_at, next_try_at = claimed_at, files_after = 1 WHERE id = 'm'")
    second = token(rig, number=1)

    [mark] = rig.stores.due_marks.take_second_pass(second, Ref("", ""), 10, 0)

    assert [(f.batch, f.number, f.id, f.outcome) for f in stored_files(rig.db)] == [
        (first.batch, 1, "n", KeyOutcome.FAILED),
        (second.batch, 1, "m", KeyOutcome.DELETED),
        (second.batch, 2, "m", KeyOutcome.ABSENT),
    ]
    [progress] = rig.stores.settlements.progress(second, [mark.ref])
    assert (progress.files, progress.done) == (2, 2)


def test_a_mark_that_was_found_finished_is_settled_unasked(rig: Rig, root: Path) -> None:
    claimed_prefix(rig, root)
    rig.later(GRACE + 1)
    order = adopt_order(rig)
    token = rig.stores.batches.open(order, 1)[0]
    [mark] = rig.stores.due_marks.take_second_pass(token, Ref("", ""), 10, 0)
    assert rig.stores.settlements.record_finished(token, [mark.ref]) == {mark.ref}
    rig.holds.place(Hold(instance="shop", scope="instance", reason="x"), DAY)

    rig.recycler.adopt(order, 2, lambda: None)

    assert rig.row("dropped", "m") is None


def test_a_mark_with_two_places_at_fault_is_kept_once(
    rig: Rig, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.local(tmp_path / "w", "other")

    class TwoPlaces(SqlOwner):
        def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
            both = (Place(vault="disk", prefix="t/"), Place(vault="other", prefix="t/"))
            return {mark.ref: Expansion(places=both, fence=False) for mark in marks}

    rig.owner = TwoPlaces(OwnerContext(rig.db, rig.registry))
    rig.recycler = rig.recycler_of(rig.owner)
    order = prefix_in_second_pass(rig, root)

    def fault(vault: LocalVault, *prefixes: str) -> int:
        raise VaultFault(vault.spec.name, "BROKEN", "no answer")

    monkeypatch.setattr(LocalVault, "abort_uploads", fault)
    receipt = rig.recycler.adopt(order, 1, lambda: None)

    assert (receipt.scanned, sum(receipt.kept.values())) == (1, 1)


def test_a_prefix_with_faulty_uploads_keeps_no_neighbour(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{n:02}" for n in range(40)]
    for name in names:
        put(root, f"{name}/a.dat")
    rig.mark("dropped", *(NewMark(id=name, vault="disk", prefix=f"{name}/") for name in names))
    rig.round(after=DUE_SECONDS)
    rig.later(GRACE + 1)
    order = adopt_order(rig)

    def fault(vault: LocalVault, *prefixes: str) -> int:
        if "t07/" in prefixes:
            raise VaultFault(vault.spec.name, "BAD_REPLY", "more than a million uploads")
        return 0

    monkeypatch.setattr(LocalVault, "abort_uploads", fault)
    receipt = rig.recycler.adopt(order, 1, lambda: None)

    assert [str(kept.subject) for kept in receipt.kept] == ["disk"]
    assert [name for name in names if rig.row("dropped", name) is not None] == ["t07"]
