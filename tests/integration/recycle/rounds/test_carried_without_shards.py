"""A round begun by code without shards continues, with a plan that has them, as one shard."""

import uuid
from pathlib import Path

import pytest

from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import KindPlan
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import Carried, KindProgress
from tests.support.rig import Rig


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
    recycler._ranges._group_files = 1
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
