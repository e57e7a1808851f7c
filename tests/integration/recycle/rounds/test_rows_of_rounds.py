"""A round is closed once, continues what code without shards began, and its rows are deleted after 400 days."""

import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.model import LeaseBusy
from sexton.recycle.model import PlanRefused, RoundEnded
from sexton.recycle.pipeline.sql.batches import add_to_round
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import KindPlan
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import Carried, CloseOrder, KindProgress
from sexton.recycle.rounds.sql import old_rows, store
from sexton.recycle.rounds.sql.old_rows import OldRows
from sexton.recycle.rounds.sql.reports import read_counters
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import Marker
from sexton.storage.port import VaultFault
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import DAY, Rig

LONG = (old_rows.ROUND_DAYS + 1) * DAY


def deletes(rig: Rig, root: Path, id_: str) -> int:
    """Run a round that deletes one mark; return its number."""
    rig.drop(root, f"{id_}.dat", id_, later=10_801)
    report = rig.round()
    assert report.removed == 1
    assert report.round
    return report.round


def test_an_old_round_is_deleted_with_its_batches_and_plan(rig: Rig, root: Path) -> None:
    for n in range(3):
        deletes(rig, root, f"m{n}")
    rig.later(LONG)
    last = deletes(rig, root, "last")

    # A round has a claim at its beginning, too.
    assert [rig.count(table) for table in ("round", "plan", "tally", "claim")] == [1, 1, 1, 2]
    assert rig.count("batch") == rig.count("batch", round=last)


def test_a_round_with_a_claimed_mark_stays(rig: Rig, root: Path) -> None:
    first, between, second = (deletes(rig, root, id_) for id_ in "abc")
    rig.mark("dropped", NewMark(id="stuck", vault="disk", keys=("stuck.dat",)))
    rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = (SELECT max(id) FROM {}batch WHERE round = :r)", r=first)
    rig.later(LONG)
    rig.rounds.plan("shop", rig.policy, "test")
    OldRows(rig.db).forget_rounds("shop", lambda: None)

    assert rig.count("round", id=first) == rig.count("tally", round=first) == 1
    assert rig.count("batch", round=first) == 2
    assert rig.count("round", id=between) == 0
    assert rig.count("round", id=second) == 1  # the newest


def test_the_round_that_a_silent_vault_names_stays(rig: Rig, tmp_path: Path) -> None:
    root, other = rig.local(tmp_path / "v"), rig.local(tmp_path / "w", "other")
    deletes(rig, root, "a")
    named = deletes(rig, root, "b")
    away = shutil.move(other, tmp_path / "away")
    rig.later(LONG)
    last = deletes(rig, root, "c")
    shutil.move(away, other)

    assert rig.count("round") == 2
    assert rig.count("round", id=named) == rig.count("round", id=last) == 1
    rig.vaults.confirm("shop", "other")  # raises BEHIND if its round is unknown


def test_the_round_of_a_marker_that_could_not_be_replaced_stays(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, other = rig.local(tmp_path / "v"), rig.local(tmp_path / "w", "other")
    deletes(rig, root, "a")
    replace = LocalVault.replace_marker

    def fail(vault: LocalVault, marker: Marker) -> None:
        if marker.name == "other":
            raise VaultFault("other", "UNREACHABLE", "its disk is full")
        replace(vault, marker)

    with monkeypatch.context() as full:
        full.setattr(LocalVault, "replace_marker", fail)
        deletes(rig, root, "b")
    away = shutil.move(other, tmp_path / "away")
    rig.later(LONG)
    deletes(rig, root, "c")
    shutil.move(away, other)

    rig.vaults.confirm("shop", "other")  # raises BEHIND if its round is unknown


def test_a_younger_round_stays(rig: Rig, root: Path) -> None:
    deletes(rig, root, "a")
    for id_, days in (("b", 1), ("c", old_rows.ROUND_DAYS - 2)):
        rig.later(days * DAY)
        deletes(rig, root, id_)

    assert rig.count("round") == rig.count("plan") == 3


def test_pages_of_rounds_are_deleted_with_a_heartbeat_each(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        deletes(rig, root, f"m{n}")
    rig.later(LONG)
    monkeypatch.setattr(old_rows, "PAGE_ROUNDS", 2)
    beats: list[int] = []
    OldRows(rig.db).forget_rounds("shop", lambda: beats.append(1))

    assert rig.count("round") == rig.count("plan") == 1  # the newest
    assert len(beats) == 6


def counters(rig: Rig) -> dict[tuple[str, str], int]:
    with rig.db.read() as c:
        return {(name, label): n for (_, name, label), n in read_counters(rig.db, c).items()}


def deleted_round(rig: Rig, root: Path, marks: int = 5) -> CloseOrder:
    """Return the order to close a round that has deleted."""
    for n in range(marks):
        rig.mark_file(root, f"m{n}")
    rig.later(10_801)
    opened, plan = rig.rounds.open("shop", "run", None, rig.policy), rig.plan()
    ledger = Ledger()
    rig.recycle(opened, plan, plan.kinds[0], ledger)
    return ledger.close_order(opened, plan.id, plan, "FAILED", "because")


def test_two_concurrent_closes_of_a_round_count_once(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = deleted_round(rig, root)
    build, first = store.build, threading.Lock()

    def when_the_other_waits(*given: Any) -> Any:
        if first.acquire(blocking=False):
            wait_for_lock_waiter(rig.db)
        return build(*given)

    monkeypatch.setattr(store, "build", when_the_other_waits)
    both = [threading.Thread(target=rig.rounds.close, args=(order,)) for _ in "12"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert counters(rig)["removed", "dropped"] == 5
    assert counters(rig)["rounds", "*"] == 1
    assert rig.instance_row().failures == 1


def test_a_page_under_way_at_the_end_is_counted(rig: Rig, root: Path) -> None:
    """Else a counter that metrics show with the counts of running rounds would fall at the end of a round."""
    order = deleted_round(rig, root)
    ending = threading.Thread(target=rig.rounds.close, args=(order,))
    with rig.db.write() as tx:
        add_to_round(rig.db, tx, order.opened.round, {("dropped", "disk"): {"removed": 1}})
        ending.start()
        wait_for_lock_waiter(rig.db)
    during = counters(rig)["removed", "dropped"]
    ending.join()

    assert (during, counters(rig)["removed", "dropped"]) == (6, 6)


def test_a_terminated_round_reports_its_own_deletions(rig: Rig, root: Path) -> None:
    order = deleted_round(rig, root)
    rig.leases.free(order.opened.lease)

    rig.round()

    _, cut_off = rig.rounds.reports.rounds("shop")
    assert cut_off.report is not None
    assert (cut_off.report.state, cut_off.report.removed, cut_off.report.deleted) == ("FAILED", 5, 5)
    assert "cut off" in cut_off.report.error
    assert counters(rig)["removed", "dropped"] == 5


def test_an_ended_round_cannot_be_opened_again(rig: Rig) -> None:
    rig.registry.observe("shop")
    assert rig.round(run="reset").observed
    assert rig.instance_row().last_success_at is None

    with pytest.raises(RoundEnded):
        rig.rounds.open("shop", "reset", None, rig.policy)
    assert rig.count("lease", state="BUSY") == 0


def test_a_round_that_claims_nothing_returns_its_plan(rig: Rig, root: Path) -> None:
    rig.mark_file(root, "m")
    rig.later(10_801)
    plan = rig.plan()
    other = rig.leases.acquire("shop", "recycle", "somebody")
    rig.approve(plan.id)
    with pytest.raises(LeaseBusy):
        rig.rounds.open("shop", "waits", plan.id, rig.policy)
    waiting = rig.rounds.reports.rounds("shop")[0].waiting

    abandoned = [rig.rounds.abandon("waits", "by ada", state="CANCELLED") for _ in range(2)]

    assert [report and (report.state, report.claimed) for report in abandoned] == [("CANCELLED", 0), None]
    assert waiting is not None
    assert waiting.startswith("waiting for its lease")
    assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
    assert rig.count("round", state="RUNNING") == 0

    rig.leases.free(other)
    rig.approve(plan.id)
    opened = rig.rounds.open("shop", "first", plan.id, rig.policy)
    rig.rounds.close(CloseOrder(opened=opened, plan=plan.id, outcome="STOPPED", error="stopped"))

    assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
    assert rig.round(plan=plan.id).removed == 1
    with pytest.raises(PlanRefused):
        rig.round(plan=plan.id)


def test_ranges_without_shards_are_carried_as_one_shard(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "SHARD_OBJECTS", 4)
    for n in range(8):
        rig.drop(root, f"{n}.dat", f"m{n}")
    rig.later(10_801)
    plan = rig.plan()
    [kind] = plan.kinds
    assert len(kind.shards) == 2
    opened = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy)
    # The older workflow ignores the shards of the plan, and works on two ranges of one mark each.
    older_plan = plan.model_copy(update={"kinds": (KindPlan(**kind.model_dump(exclude={"shards"})),)})
    recycler = rig.recycler
    monkeypatch.setattr("sexton.recycle.pipeline.ranges.GROUP_FILES", 1)
    monkeypatch.setattr("sexton.recycle.pipeline.ranges.RANGE_OBJECTS", 1)
    monkeypatch.setattr("sexton.recycle.pipeline.resolve.CHUNK_FILES", 1)
    older = Ledger()
    older.begin(older_plan)
    for _ in range(2):
        order = older.next_range(opened, older_plan, older_plan.kinds[0], 0)
        older.add_range(order, recycler.recycle(order, 1, lambda: None))
    carried = older.carried(opened.lease.owner, opened, plan.id)
    without_shards = tuple(
        KindProgress.model_validate(k.model_dump(exclude={"shards"}, mode="json")) for k in carried.kinds
    )
    ledger = Ledger(Carried(**carried.model_dump(exclude={"kinds"}), kinds=without_shards))

    ledger.begin(plan)
    while shards := ledger.unfinished_shards(kind.kind):
        assert shards == [0]
        order = ledger.next_range(opened, plan, kind, 0)
        ledger.add_range(order, recycler.recycle(order, 1, lambda: None))

    assert rig.count("mark") == 0
    assert ledger.kinds[kind.kind].claimed == 8
