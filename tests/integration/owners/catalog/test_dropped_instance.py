"""An instance that was dropped is deleted as a whole: after an approval, all objects before any record."""

from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select

from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.marks.model import InstanceMode, Ref
from sexton.marks.whole import WHOLE
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.errors import AlreadyDropped
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import HOUR, OWN, Shop
from tests.support.crashes import Crash, crash_at
from tests.support.rig import GRACE, RETENTION, Rig, listing, put
from tests.support.scrape import scrape

RETAINED = OWN["instance"] + 1


def fill(shop: Shop, vaults: list[str]) -> set[str]:
    """Make a record of every kind, with files in each vault, and files without a record; return all keys."""
    for vault in vaults:
        tablets = shop.table(f"t{vault}", 2, partitions=[f"{vault}-p1", f"{vault}-p2"])
        first = shop.loaded(tablets, vault, bitmap=True)
        shop.compacted(tablets[0], [first[0]], vault)
        shop.catalog.drop_rowset(shop.loaded(tablets[:1], vault)[0])
        shop.written(tablets, vault)
        shop.prepared(tablets, vault)
        shop.catalog.drop_partition(f"{vault}-p2")
        shop.put(vault, "data/unknown/file")
    return {key for vault in vaults for key in shop.objects(vault)}


def records(shop: Shop) -> int:
    """Return how many records the catalog has in all of its tables."""
    with shop.db.read() as c:
        return sum(c.execute(select(func.count()).select_from(t)).scalar_one() for t in shop.t.metadata.sorted_tables)


@pytest.fixture
def full(shop: Shop, tmp_path: Path) -> Shop:
    """A shop with three vaults, a record of every kind, and a file that is not the catalog's."""
    for name in ("two", "three"):
        shop.local(tmp_path / name, name)
    fill(shop, ["disk", "two", "three"])
    shop.put("disk", "notes/of-the-operators.txt")
    return shop


def left(shop: Shop) -> set[str]:
    return {key for vault in shop.roots for key in shop.objects(vault)}


def waiting(shop: Shop) -> int:
    """Run a round; return the plan that awaits an approval afterwards."""
    shop.round()
    with shop.db.read() as c:
        [plan] = shop.rounds.plans.approvals.waiting(c)
    assert "operator must approve" in str(plan.awaits)
    return plan.id


def test_r28_a_dropped_instance_is_deleted_objects_first(full: Shop) -> None:
    shop = full
    objects, count, kept = left(shop), records(shop), {"notes/of-the-operators.txt"}
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    plan = waiting(shop)
    unapproved = (left(shop), records(shop))

    shop.round(plan=plan)
    between = (left(shop), records(shop))
    shop.second_pass()

    assert unapproved == (objects, count)
    assert between == (kept, count)
    assert (left(shop), records(shop), shop.refs()) == (kept, 0, set())
    assert {row.key for row in shop.audit_list.rows if row.outcome == "deleted"} == objects - kept
    assert shop.registry.instance("shop").mode == InstanceMode.DELETED


@pytest.mark.slow
def test_r28_a_dropped_instance_in_s3_is_deleted_objects_first(s3_shop: Shop) -> None:
    shop = s3_shop
    objects, count = fill(shop, ["cold"]), records(shop)
    shop.catalog.drop_instance()
    shop.later(RETAINED)

    shop.round(plan=waiting(shop))
    between = (shop.objects(), records(shop))
    shop.second_pass()

    assert len(objects) > 10
    assert between == (set(), count)
    assert (shop.objects(), records(shop), shop.refs()) == (set(), 0, set())
    assert {row.key for row in shop.audit_list.rows if row.outcome == "deleted"} == objects


def test_a_deleted_instance_keeps_its_name(full: Shop) -> None:
    shop = full
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    shop.round(plan=waiting(shop))
    shop.second_pass()

    assert shop.registry.instances() == []
    with pytest.raises(BadInput, match="choose another name"):
        shop.registry.add_instance("shop", "catalog")
    with pytest.raises(BadInput, match="nothing of it is left"):
        shop.registry.enable("shop")
    with pytest.raises(AlreadyDropped):
        shop.catalog.drop_instance()


def test_an_undropped_instance_is_as_before(full: Shop) -> None:
    shop = full
    objects, count = left(shop), records(shop)
    shop.catalog.drop_instance()
    with pytest.raises(AlreadyDropped, match="undrop it"):
        shop.catalog.begin("load", HOUR)
    shop.catalog.undrop_instance()
    shop.later(RETAINED - HOUR)

    assert (left(shop), records(shop)) == (objects, count)
    assert shop.catalog.begin("load", HOUR)
    assert Ref("instance", "whole") not in shop.refs()


def test_a_claimed_instance_is_not_undropped(full: Shop) -> None:
    shop = full
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    shop.round(plan=waiting(shop))

    with pytest.raises(contract.Refused):
        shop.catalog.undrop_instance()


def test_a_hold_on_anything_keeps_a_dropped_instance(full: Shop) -> None:
    shop = full
    objects = left(shop)
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    plan = waiting(shop)
    order = Hold(instance="shop", scope="mark", reason="needed", mark_kind="table", mark_id="tdisk", placed_by="anna")
    hold, _ = shop.holds.place(order, HOUR)
    shop.round(plan=plan)
    held = left(shop)
    shop.holds.release(hold.id)
    shop.round(plan=waiting(shop))

    assert held == objects
    assert left(shop) == {"notes/of-the-operators.txt"}


def test_marks_of_a_dropped_instance_wait_for_it(full: Shop) -> None:
    shop = full
    objects = left(shop)
    shop.later(RETAINED)
    shop.catalog.drop_instance()

    shop.round()

    assert left(shop) == objects


@pytest.mark.parametrize("claimed", ["tablet", "prepared"])
def test_marks_claimed_before_the_drop_are_finished_first(shop: Shop, claimed: str) -> None:
    tablets = shop.table()
    if claimed == "tablet":
        shop.loaded(tablets)
        shop.catalog.drop_table("t")
    else:
        shop.written(tablets)
    shop.later(HOUR + RETAINED)
    with suppress(Crash), installed(crash_at("claim.committed")):
        shop.round()
    shop.catalog.drop_instance()
    shop.later(RETAINED)

    shop.round()
    shop.second_pass()
    shop.round(plan=waiting(shop))
    shop.second_pass()

    assert (shop.objects(), records(shop), shop.refs()) == (set(), 0, set())
    assert shop.registry.instance("shop").mode == InstanceMode.DELETED


def test_a_discarded_drop_leaves_the_instance_as_it_was(full: Shop) -> None:
    shop = full
    objects, count = left(shop), records(shop)
    shop.catalog.drop_instance()
    with shop.db.write() as c:
        mark = shop.db.t.mark
        c.execute(mark.update().where(mark.c.kind == "instance").values(quarantined_reason="BAD_KEY"))
    QuarantineStore(shop.db).discard("shop", WHOLE, "anna")

    shop.round()

    assert shop.registry.instance("shop").mode == InstanceMode.ENABLED
    assert (left(shop), records(shop)) == (objects, count)
    assert shop.catalog.begin("load", HOUR)


def test_the_mark_of_another_owner_ends_no_instance(database_url: str, tmp_path: Path) -> None:
    rig = Rig(database_url).instance()
    rig.policy = policy(RETENTION | {"instance": 10_800}, GRACE)
    root = rig.local(tmp_path / "v")
    put(root, "x/1")
    rig.mark("instance", contract.NewMark(id="whole", vault="disk", prefix="x/"))
    rig.later(10_801)
    rig.round()
    rig.later(GRACE + 1)
    rig.round()

    assert listing(root) == {}
    assert rig.registry.instance("shop").mode == InstanceMode.ENABLED
    rig.db.close()


def test_no_vault_is_added_to_a_dropped_instance(full: Shop, tmp_path: Path) -> None:
    full.catalog.drop_instance()

    with pytest.raises(BadInput, match="undrop it first"):
        full.local(tmp_path / "late", "late")
    full.catalog.undrop_instance()
    full.local(tmp_path / "late", "late")


def test_metrics_leave_out_a_deleted_instance(full: Shop) -> None:
    full.check()
    full.catalog.drop_instance()
    full.later(RETAINED)
    full.round(plan=waiting(full))
    full.second_pass()
    full.later(40 * 86_400)

    found = scrape(full)
    assert found("sexton_seconds_since_complete_check", instance_id="shop") is None
    assert found.starting_with("sexton_check_findings") == {}


def test_a_deleted_instance_stays_deleted(full: Shop) -> None:
    shop = full
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    shop.round(plan=waiting(shop))
    shop.second_pass()
    shop.later(31 * 86_400)
    shop.round()

    with pytest.raises(AlreadyDropped):
        shop.catalog.begin("load", HOUR)
    assert shop.registry.instance("shop").mode == InstanceMode.DELETED


def test_an_instance_without_a_vault_is_deleted(database_url: str) -> None:
    shop = Shop(database_url).register()
    shop.table()
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    shop.round(plan=waiting(shop))
    shop.second_pass()

    assert (records(shop), shop.refs()) == (0, set())
    assert shop.registry.instance("shop").mode == InstanceMode.DELETED
    shop.close()


class DyingWorker:
    """Kills the process under test at each crash point once, the first time that a round reaches it."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        if point not in self.points:
            self.points.append(point)
            raise Crash(point)


@pytest.mark.slow
def test_a_dropped_instance_is_deleted_whatever_step_dies(full: Shop) -> None:
    shop, dying, kept = full, DyingWorker(), {"notes/of-the-operators.txt"}
    count = records(shop)
    shop.catalog.drop_instance()
    shop.later(RETAINED)
    plan, run = waiting(shop), "the approved run"
    early: list[str] = []
    rounds = 0
    while shop.registry.instance("shop").mode != InstanceMode.DELETED or shop.refs():
        rounds += 1
        with suppress(Crash), installed(dying):
            shop.round(plan=plan, run=run) if rounds < 10 else shop.round()
        early += dying.points[-1:] if records(shop) < count and left(shop) != kept else []
        shop.later(HOUR + 1)

    assert len(dying.points) > 10
    assert early == []
    assert (left(shop), records(shop), shop.refs()) == (kept, 0, set())
