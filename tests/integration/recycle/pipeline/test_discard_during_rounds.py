"""A mark may be discarded while it waits for a second pass, not while its files, or requests for them, are deleted."""

import re
import shlex
from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.operators.controls.model import ControlKind, Halted
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.recycle.pipeline.sql import quarantine
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    attempt,
    claimed_prefix,
    prefix_in_second_pass,
    range_order,
    replaced_worker,
    throttle,
)
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing, put

MARK = Ref("dropped", "m")
WEEK = 7 * 86_400


def test_a_mark_is_not_discarded_while_its_files_are_deleted(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = prefix_in_second_pass(rig, root)
    busy, accepting = throttle(monkeypatch)
    with attempt(rig, order, 1) as errors:
        assert busy.wait(PATIENCE_SECONDS)
        with pytest.raises(BadInput, match="are being deleted now: let the round finish"):
            QuarantineStore(rig.db).discard("shop", MARK, "its files must stay")
        accepting.set()

    assert errors == []
    assert (listing(root), rig.row("dropped", "m")) == ({}, None)


def test_a_mark_discarded_before_it_is_settled_counts_once(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = prefix_in_second_pass(rig, rig.local(tmp_path / "v"))
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
    tally = rig.db.t.tally
    with rig.db.read() as c:
        counts = c.execute(select(tally.c.deleted, tally.c.removed).where(tally.c.round == order.round)).all()

    assert discarded
    assert [tuple(row) for row in counts] == [(1, 0)]


def test_the_commands_that_undelete_names_keep_the_object(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claimed_prefix(rig, root)
    with pytest.raises(UndeleteUnsafe) as refused:
        ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
    hold, discard = re.findall(r"sexton ((?:hold|quarantine discard) .*?'undelete')", str(refused.value))

    held = run(rig, capsys, *shlex.split(hold))
    ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
    put(root, "t/a.dat")  # undeleted
    asked = run(rig, capsys, *shlex.split(discard))
    discarded = run(rig, capsys, *shlex.split(discard), "--yes")
    rig.later(WEEK + 1)
    rig.round()

    assert (held.code, asked.code, discarded.code, listing(root)) == (0, 1, 0, {"t/a.dat": 10})
    assert "waits for its second pass" in asked.out


@pytest.mark.slow
def test_a_stopped_round_leaves_marks_that_can_be_discarded(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = prefix_in_second_pass(rig, root)
    busy, accepting = throttle(monkeypatch)
    with attempt(rig, order, 1) as errors:
        assert busy.wait(PATIENCE_SECONDS)
        rig.controls.put(ControlKind.STOP, "shop", "wrong table")
    rig.leases.free(order.lease)  # as a round does when it ends
    accepting.set()
    rig.holds.place(Hold(instance="shop", scope="prefix", vault="disk", prefix="t/", reason="undelete"), WEEK)

    ensure_undelete_is_safe(rig.db, "shop", "disk", prefix="t/")
    QuarantineStore(rig.db).discard("shop", MARK, "undelete")

    assert [type(e) for e in errors] == [Halted]
    assert listing(root) == {"t/late.dat": 10}


def test_discard_waits_for_a_replaced_worker(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(rig.local(tmp_path / "v"), "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    quarantine = QuarantineStore(rig.db)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        assert rig.row("dropped", "m").first_pass_at is not None
        with pytest.raises(BadInput, match="a request may still delete files of dropped m"):
            quarantine.discard("shop", Ref("dropped", "m"), "its files must stay")
    rig.later(120)
    quarantine.discard("shop", Ref("dropped", "m"), "its files must stay")

    assert rig.row("dropped", "m") is None
