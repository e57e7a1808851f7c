"""Atlassian 2022: a script was given ids of sites instead of ids of an app, and deleted the sites permanently.

Sexton: an id has a kind, a plan is applied only as it was approved, many deletions need an approval, and an owner can
undrop a mistaken mark until it is claimed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import InstanceNotRegistered, NewMark, Refused
from sexton.kernel import crash_points
from sexton.kernel.errors import SextonError
from sexton.operators.controls.model import NotEnabled
from sexton.owners.catalog.model import RecordNotFound
from sexton.recycle.model import PlanRefused
from tests.integration.owners.catalog.shop import Shop
from tests.museum.tables import check_sums, deleted_ids, marks
from tests.support.command import run
from tests.support.planned import Limited, limited_policy, waiting_plans
from tests.support.rig import GRACE, Rig, listing, put

SITES = [f"site{n}" for n in range(60)]


@pytest.fixture
def shop(database_url: str) -> Iterator[Limited]:
    """An instance of which 50 objects may go in a day unasked."""
    rig = Limited(database_url).instance()
    rig.policy = limited_policy(objects=50)
    yield rig
    rig.db.close()


@pytest.fixture
def root(shop: Limited, tmp_path: Path) -> Path:
    """A vault whose every site was marked by mistake, and is due."""
    root = shop.local(tmp_path / "v")
    for i in SITES:
        put(root, f"{i}/a.dat", 7)
    shop.mark("dropped", *(NewMark(id=i, vault="disk", keys=(f"{i}/a.dat",), bytes=7) for i in SITES))
    shop.later(10_801)
    return root


def take_back(rig: Rig, *ids: str) -> int:
    with rig.db.write() as c:
        return contract.undrop(c, "shop", "dropped", ids)


@pytest.mark.slow
def test_atlassian_2022_undrop_takes_back_many_wrong_ids(shop: Limited, root: Path) -> None:
    before = listing(root)
    unasked = [shop.round() for _ in range(3)]
    for _ in range(3):  # nor does it go by waiting
        shop.later(9 * 3_600)
        unasked.append(shop.round())

    back = take_back(shop, *SITES)
    after = shop.round()

    assert {(r.claimed, r.deleted) for r in (*unasked, after)} == {(0, 0)}
    assert back == len(SITES)
    assert (listing(root), marks(shop), waiting_plans(shop)) == (before, {}, [])


def test_atlassian_2022_changed_plan_is_refused(shop: Limited, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(root)
    shop.round()
    [number] = waiting_plans(shop)
    take_back(shop, "site7")
    shop.mark("dropped", NewMark(id="other", vault="disk", keys=("site7/a.dat",), bytes=7))
    shop.later(10_801)  # as many marks as before, not the same

    with pytest.raises(PlanRefused, match="dropped"):
        shop.round(plan=number)
    refused = run(shop, capsys, "apply", str(number), "--yes")

    assert refused.code == 1
    assert listing(root) == before
    assert set(marks(shop).values()) == {"MARKED"}


def test_atlassian_2022_undrop_during_apply_keeps_the_files(shop: Limited, root: Path) -> None:
    before = listing(root)
    shop.round()
    [number] = waiting_plans(shop)

    def regrets(name: str) -> None:
        if name == "resolve.stored":
            take_back(shop, *SITES[:59])

    with crash_points.installed(regrets):
        applied = shop.round(plan=number)

    assert (applied.claimed, applied.deleted) == (1, 1)
    assert set(listing(root)) == {f"{i}/a.dat" for i in SITES[:59]}
    assert deleted_ids(shop) == {SITES[59]}
    check_sums(shop, [applied], before, listing(root))


def test_atlassian_2022_plan_applies_once_to_its_own_instance(shop: Limited, root: Path) -> None:
    before = listing(root)
    shop.instance("other")
    shop.round()
    [number] = waiting_plans(shop)
    with pytest.raises(PlanRefused, match="not an open plan of other"):
        shop.round("other", plan=number)
    shop.registry.observe("shop")
    with pytest.raises(NotEnabled):
        shop.round(plan=number)
    untouched = listing(root)
    shop.registry.enable("shop")
    shop.round()
    [number] = waiting_plans(shop)
    applied = shop.round(plan=number)

    assert untouched == before
    assert applied.deleted == len(SITES)
    with pytest.raises(PlanRefused, match="APPLIED"):
        shop.round(plan=number)


def test_atlassian_2022_foreign_id_deletes_and_undrops_nothing(rig: Rig, disk: Path) -> None:
    put(disk, "t1/a.dat")
    rig.instance("other")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("t1/a.dat",)))
    with rig.db.write() as c, pytest.raises(Refused, match="t1 is not marked"):
        contract.undrop(c, "shop", "compacted", ["t1"])
    with rig.db.write() as c, pytest.raises(Refused, match="t1 is not marked"):
        contract.undrop(c, "other", "dropped", ["t1"])
    with rig.db.write() as c, pytest.raises(InstanceNotRegistered, match="SX004"):
        contract.mark(c, "nobody", "dropped", [NewMark(id="t2", vault="disk", keys=("t1/a.dat",))])
    for kind in ("", "Dropped", "dropped/t1", "dropped'"):
        with rig.db.write() as c, pytest.raises(SextonError, match="refused"):
            contract.mark(c, "shop", kind, [NewMark(id="t3", vault="disk", keys=("t1/a.dat",))])
    rig.mark("tenant", NewMark(id="t1", vault="disk", keys=("t1/a.dat",)))  # no kind that anybody configured
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("t1/a.dat",)), instance="other")  # it has no such vault
    take_back(rig, "t1")
    rig.later(1_000_000)

    reports = [rig.round(), rig.round("other")]

    assert [r.claimed for r in reports] == [0, 0]
    assert listing(disk) == {"t1/a.dat": 10}
    assert rig.row("dropped", "t1", "other").quarantined_reason == "UNKNOWN_VAULT"


@pytest.fixture
def catalog(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(database_url).register()
    made.local(tmp_path / "disk")
    yield made
    made.close()


def test_atlassian_2022_catalog_refuses_an_id_of_another_type(
    catalog: Shop,
) -> None:
    catalog.loaded(catalog.table("t"))
    before = listing(catalog.roots["disk"])
    [index, partition] = ["t-i", "t-p"]
    for drop, wrong in (
        (catalog.catalog.drop_partition, ("t", index, "")),
        (catalog.catalog.drop_index, ("t", partition, "")),
        (catalog.catalog.drop_table, (index, partition, "")),
    ):
        for id_ in wrong:
            with pytest.raises(RecordNotFound):
                drop(id_)
    catalog.later(1_000_000)
    catalog.round()

    assert catalog.refs() <= {r for r in catalog.refs() if r.kind == "txn_label"}
    assert listing(catalog.roots["disk"]) == before


def test_atlassian_2022_false_mark_deletes_no_catalog_file(catalog: Shop) -> None:
    """A script writes marks past the catalog: of every id that is live, whatever its kind."""
    [tablet] = catalog.table("t")
    [rowset] = catalog.loaded([tablet])
    before = listing(catalog.roots["disk"])
    for kind in ("tablet", "partition", "index", "table", "dropped", "compacted", "prepared"):
        catalog.mark(kind, *(NewMark(id=id_, vault=None) for id_ in ("t", "t-i", "t-p", tablet, rowset)))
        catalog.later(1_000_000)

        for _ in range(3):
            catalog.round()
            catalog.later(GRACE + 1)

        assert listing(catalog.roots["disk"]) == before, kind
        assert catalog.states([rowset]) == {"visible"}, kind
        assert catalog.catalog.tablets(table="t") == [tablet], kind
