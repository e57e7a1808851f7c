"""Discards are refused, and an undelete is not called safe, while a round or a request may still delete the objects."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.operators.controls.model import ControlKind, Halted
from sexton.operators.registry import undelete
from sexton.operators.registry.undelete import find_later_deletions, give_up, hold_on, hold_place
from sexton.recycle.pipeline.sql import quarantine
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.model import IN_FLIGHT_SECONDS, KeyOutcome
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    adopt_order,
    attempt,
    claimed_prefix,
    hanging_request,
    prefix_in_second_pass,
    range_order,
    replaced_worker,
    stuck_attempt,
    throttling,
    work_off,
)
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.claims import token
from tests.support.command import run
from tests.support.door import door_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import GRACE, Rig, listing, put
from tests.support.undeletes import what_deletes

MARK = Ref("dropped", "m")
WEEK = 7 * 86_400
AFTER_REQUESTS = int(IN_FLIGHT_SECONDS) + 1


def test_discard_and_hold_come_too_late_for_a_second_pass(rig: Rig, root: Path) -> None:
    with stuck_attempt(rig, prefix_in_second_pass(rig, root), throttling()) as errors:
        with pytest.raises(BadInput, match="are being deleted now: let the round finish"):
            QuarantineStore(rig.db).discard("shop", MARK, "its files must stay")
        said = what_deletes(rig, "t/")

    assert "mark dropped m of shop is claimed, and the round that runs may delete its files" in said
    assert errors == []
    assert listing(root) == {}
    rig.later(GRACE + 1)  # it found an object: it looks once more
    rig.round()
    assert (rig.row("dropped", "m"), what_deletes(rig, "t/")) == (None, "")


def test_a_mark_discarded_before_it_is_settled_counts_once(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = prefix_in_second_pass(rig, root)
    progress, discarded = rig.stores.settlements.progress, []

    def discard_after(token: object, refs: object) -> object:
        marks = progress(token, refs)  # type: ignore[arg-type]
        if not discarded:
            with monkeypatch.context() as patch:  # the lease was lost, and another worker takes over in a moment
                patch.setattr(quarantine, "may_be_deleting", lambda *_: False)
                discarded.append(QuarantineStore(rig.db).discard("shop", MARK, "why"))
        return marks

    rig.stores.settlements.progress = discard_after  # type: ignore[method-assign,assignment]
    rig.recycler.adopt(order, 1, lambda: None)

    assert discarded
    assert [(row.deleted, row.removed) for row in rig.rows("tally") if row.round == order.round] == [(1, 0)]


def test_a_discard_keeps_undeleted_objects_when_their_hold_ends(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claimed_prefix(rig, root)
    assert what_deletes(rig, "t/") == ""
    put(root, "t/a.dat")  # undeleted
    marks = find_later_deletions(rig.db, hold_place(rig.holds, hold_on("shop", "disk", "t/")))
    [discard] = re.findall(r"sexton (quarantine discard .*?'undelete')", give_up("shop", min(marks)))
    rig.round(after=GRACE + 1)
    assert listing(root) == {"t/a.dat": 10}

    asked = run(rig, capsys, *shlex.split(discard))
    discarded = run(rig, capsys, *shlex.split(discard), "--yes")
    rig.round(after=WEEK + 1)

    assert (asked.code, discarded.code, listing(root)) == (1, 0, {"t/a.dat": 10})
    assert "waits for its second pass" in asked.out


@pytest.mark.parametrize("vault", ["disk", None])
def test_a_later_deletion_is_found_above_and_below_a_place(rig: Rig, root: Path, vault: str | None) -> None:
    """A mark without a vault deletes in every one."""
    claimed_prefix(rig, root)
    rig.update("mark", {"id": "m"}, vault=vault)

    for place, marks in (("t/", {MARK}), ("t/a.dat", {MARK}), ("t", {MARK}), ("u/", set())):
        assert find_later_deletions(rig.db, hold_on("shop", "disk", place)) == marks, place


@pytest.mark.slow
def test_a_stopped_round_leaves_marks_that_can_be_discarded(rig: Rig, root: Path) -> None:
    order = prefix_in_second_pass(rig, root)
    with throttling() as door:
        with attempt(rig, order, 1) as errors:
            assert door.reached.wait(PATIENCE_SECONDS)
            rig.controls.put(ControlKind.STOP, "shop", "wrong table")
        rig.leases.free(order.lease)  # as a round does when it ends

    assert what_deletes(rig, "t/") == ""
    QuarantineStore(rig.db).discard("shop", MARK, "undelete")

    assert [type(e) for e in errors] == [Halted]
    assert listing(root) == {"t/late.dat": 10}


def test_discard_waits_for_a_replaced_worker(rig: Rig, root: Path) -> None:
    rig.drop_files(root, "m", "t/a.dat", prefix="t/")
    rig.later(DUE_SECONDS)
    quarantine = QuarantineStore(rig.db)
    with replaced_worker(rig, range_order(rig)):
        assert rig.row("dropped", "m").first_pass_at is not None
        with pytest.raises(BadInput, match="a request may still delete files of dropped m"):
            quarantine.discard("shop", MARK, "its files must stay")
    rig.later(120)
    quarantine.discard("shop", MARK, "its files must stay")

    assert rig.row("dropped", "m") is None


def test_a_retried_mark_would_delete_its_keys_again(rig: Rig, root: Path) -> None:
    rig.drop_files(root, "m", "a.dat", "b.dat")
    rig.later(DUE_SECONDS)
    refused_round(rig, "b.dat", outcome=KeyOutcome.CHANGED)
    assert rig.row("dropped", "m").quarantined_reason == "CHANGED"
    QuarantineStore(rig.db).retry("shop", ref=MARK)

    for place, marks in (("a.dat", {MARK}), ("a.", {MARK}), ("other.dat", set())):
        assert what_deletes(rig, place) == ""
        assert find_later_deletions(rig.db, hold_place(rig.holds, hold_on("shop", "disk", place))) == marks


def test_a_held_second_pass_of_a_replaced_worker_is_waited_for(rig: Rig, root: Path) -> None:
    order = prefix_in_second_pass(rig, root)
    with stuck_attempt(rig, order, hanging_request()):
        assert what_deletes(rig, "t/")
        rig.recycler.adopt(order, 2, lambda: None)
        assert rig.count_files() == 0
        rig.leases.free(order.lease)
        assert "may still delete objects" in what_deletes(rig, "t/")

    rig.later(AFTER_REQUESTS)
    assert what_deletes(rig, "t/") == ""


def test_a_second_pass_is_not_safe_before_it_is_settled(rig: Rig, root: Path) -> None:
    order = prefix_in_second_pass(rig, root)
    with stuck_attempt(rig, order, door_at("audit.written")) as errors:
        assert "the round that runs may delete its files" in what_deletes(rig, "t/")

    assert errors == []
    assert listing(root) == {}
    rig.later(GRACE + 1)  # it found an object: it looks once more
    rig.round()
    assert rig.row("dropped", "m") is None


def set_take_over(rig: Rig, seconds_ahead: int) -> None:
    """Set the instant of each take-over to some seconds from now."""
    rig.update("batch", taken_over_at=rig.now() + 1_000 * seconds_ahead)


def test_a_clock_that_steps_back_does_not_hide_a_take_over(rig: Rig, root: Path) -> None:
    token(rig)
    token(rig, attempt=2)

    set_take_over(rig, 2)
    assert "may still delete objects" in what_deletes(rig, "t/")
    set_take_over(rig, 86_400)
    assert what_deletes(rig, "t/") == ""


def test_an_empty_second_pass_is_not_safe_before_it_is_settled(rig: Rig, root: Path) -> None:
    put(root, "t/a.dat")
    put(root, "u/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"), NewMark(id="n", vault="disk", prefix="u/"))
    rig.round(after=DUE_SECONDS)
    put(root, "u/late.dat")
    rig.later(GRACE + 1)
    with stuck_attempt(rig, adopt_order(rig), throttling()) as errors:  # with a page of the other mark
        said = what_deletes(rig, "t/")
        put(root, "t/a.dat")  # undeleted

    assert errors == []
    assert said or rig.row("dropped", "m") is not None


def test_undelete_sees_a_take_over_while_it_reads_the_marks(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    order = range_order(rig)
    real: Callable[..., list[undelete.ClaimOver]] = undelete._claims_over
    taken_over = False

    def read_slowly(*arguments: object) -> list[undelete.ClaimOver]:
        nonlocal taken_over
        if not taken_over:
            taken_over = True
            work_off(rig, order, 2)
        return real(*arguments)

    with stuck_attempt(rig, order, hanging_request()):
        monkeypatch.setattr(undelete, "_claims_over", read_slowly)
        said = what_deletes(rig, "a.dat")

    assert taken_over
    assert "mark dropped m" in said  # it sees the mark, as it was before the take-over


def test_undelete_waits_although_the_clock_was_ahead_once(rig: Rig, root: Path) -> None:
    old_round(rig)
    rig.set_year_ahead("batch", "taken_over_at")
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    with replaced_worker(rig, range_order(rig)):
        assert rig.row("dropped", "m") is None
        assert "may still delete objects, for up to 37 s" in what_deletes(rig, "a.dat")
    rig.later(AFTER_REQUESTS)

    assert what_deletes(rig, "a.dat") == ""


def old_round(rig: Rig) -> None:
    """Run a round that has a mark to claim."""
    rig.mark("dropped", NewMark(id="old", vault="disk", keys=("old.dat",)))
    rig.round(after=DUE_SECONDS)


def test_a_take_over_of_the_future_is_over_with_the_next_round(rig: Rig, root: Path) -> None:
    old_round(rig)
    set_take_over(rig, 3_600)
    rig.round()
    rig.later(3_010)  # the instant would be believed from now on

    assert what_deletes(rig, "a.dat") == ""
