"""Shards of one kind, at the same time: together they keep every limit, order and hold, also where their ranges meet.

Shards of one plan never overlap. After a rolling upgrade they do.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.marks.sql import rows
from sexton.operators.holds.model import Hold
from sexton.recycle.pipeline.model import RangeOrder, RangeReceipt
from sexton.recycle.planning import policy
from sexton.recycle.rounds.ledger import Ledger
from sexton.storage.port import VaultFault
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, range_order
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.planned import Limited, limited_policy
from tests.support.rig import Rig, listing, put

DUE = 10_801
ODD = ("-", ".", "..", "0", "9", "A", "B-", "B.", "Z", "a", "a-", "a.", "a0", "aA", "aa", "b", "z", "zz")
"""Ids that collations of natural languages order otherwise than bytes do."""


def first_ranges(rig: Rig, instance: str = "shop") -> list[RangeOrder]:
    """Open a round with a plan, and return the order of the first range of each shard."""
    opened = rig.rounds.open(instance, f"run of {instance}", None, rig.policy)
    rig.recycler.announce(opened, lambda: None)
    plan = rig.plan(instance)
    ledger = Ledger()
    ledger.begin(plan)
    [kind] = plan.kinds
    shards = ledger.unfinished_shards(kind.kind)
    orders = [ledger.next_range(opened, plan, kind, shard) for shard in shards]
    return [rig.rounds.checked_range(order, rig.policy) for order in orders]


def work_together(rig: Rig, orders: list[RangeOrder]) -> list[RangeReceipt]:
    """Work on all ranges at once: each waits for the others before its first claim."""
    together, claimed = threading.Barrier(len(orders)), threading.local()

    def visit(point: str) -> None:
        if point == "claim.asked" and not getattr(claimed, "once", False):
            claimed.once = True
            together.wait(PATIENCE_SECONDS)

    def work(order: RangeOrder) -> RangeReceipt:
        return rig.recycler.recycle(order, 1, lambda: None)

    with crash_points.installed(visit), ThreadPoolExecutor(len(orders)) as pool:
        return list(pool.map(work, orders))


def test_shards_at_the_same_time_stay_below_one_limit(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 10)
    shop = Limited(rig.url)
    shop.policy = limited_policy(objects=50)
    root = shop.local(tmp_path / "v")
    for n in range(4):
        for file in range(20):  # estimated as 10 each
            put(root, f"t{n}/{file}.dat")
    shop.mark("dropped", *(NewMark(id=f"t{n}", vault="disk", prefix=f"t{n}/") for n in range(4)))
    shop.later(DUE)
    orders = first_ranges(shop)

    receipts = work_together(shop, orders)

    assert len(orders) == 4
    assert sum(receipt.claimed for receipt in receipts) == 2
    assert len(listing(root)) == 40
    assert all(receipt.finished for receipt in receipts)
    shop.db.close()


def test_equal_ids_of_two_instances_are_judged_apart(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 5)
    rig.instance("other")
    roots = {name: rig.local(tmp_path / name, instance=name) for name in ("shop", "other")}
    for name, root in roots.items():
        for n in range(10):
            put(root, f"{n}.dat")
        marks = [NewMark(id=f"m{n}", vault="disk", keys=(f"{n}.dat",)) for n in range(10)]
        rig.mark("dropped", *marks, instance=name)
    rig.later(DUE)
    orders = first_ranges(rig) + first_ranges(rig, "other")
    for n in (0, 7):
        rig.holds.place(Hold(instance="other", scope="mark", mark_kind="dropped", mark_id=f"m{n}", reason="x"), 86_400)

    work_together(rig, orders)

    assert len(orders) == 4
    assert listing(roots["shop"]) == {}
    assert sorted(listing(roots["other"])) == ["0.dat", "7.dat"]
    assert rig.count("mark", instance="shop") == 0
    assert rig.count("mark", instance="other", state="MARKED") == 2
    assert rig.count_files() == 0


@pytest.mark.parametrize("keys", [1, 3])
def test_odd_ids_of_one_instant_are_each_in_one_range(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 4 * keys)
    monkeypatch.setattr(rows, "MOST_KEYS", 2)  # so that pages end between marks of one instant, too
    marks = []
    for n, name in enumerate(ODD):
        names = tuple(f"{n}/{key}.dat" for key in range(keys))
        for key in names:
            put(root, key)
        marks.append(NewMark(id=name, vault="disk", keys=names))
    rig.mark("dropped", *marks)
    rig.later(DUE)
    orders = first_ranges(rig)

    receipts = work_together(rig, orders)

    assert len(orders) == 5
    assert [receipt.claimed for receipt in receipts] == [4, 4, 4, 4, 2]
    assert listing(root) == {}
    assert rig.count("mark") == 0


def test_a_range_drops_no_files_that_another_has_claimed(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    order = range_order(rig)
    overlapping = order.model_copy(update={"number": 1, "shard": 1})
    resolved, claimed = threading.Event(), threading.Event()
    real = rig.vaults.get

    def get(instance: str, name: str, *more: object) -> object:
        if threading.current_thread() is other and claimed.is_set():
            raise VaultFault(name, "UNREACHABLE", "for a moment, on this worker")
        return real(instance, name, *more)

    monkeypatch.setattr(rig.vaults, "get", get)

    def visit(point: str) -> None:
        if threading.current_thread() is other and point == "resolve.stored":
            resolved.set()
            assert claimed.wait(PATIENCE_SECONDS)
        elif threading.current_thread() is not other and point == "claim.committed" and not claimed.is_set():
            claimed.set()
            other.join(PATIENCE_SECONDS)

    other = threading.Thread(target=lambda: rig.recycler.recycle(overlapping, 1, lambda: None))
    with crash_points.installed(visit):
        other.start()
        assert resolved.wait(PATIENCE_SECONDS)
        rig.recycler.recycle(order, 1, lambda: None)
    other.join(PATIENCE_SECONDS)

    assert rig.row("dropped", "m") is not None or listing(root) == {}, "the record is removed, the file stays"
