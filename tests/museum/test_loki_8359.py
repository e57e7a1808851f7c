"""Loki #8359: a change of the configuration reclassified everything, and the next run deleted it.

In Sexton marks that are due only because a retention was shortened wait in a plan of their own for an approval, and a
plan is never applied under other settings than those it was made with.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.sections import RecycleSection
from config.settings import Settings
from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.recycle.model import PlanRefused
from sexton.recycle.planning.model import Policy
from tests.integration.owners.catalog.shop import HOUR, Shop
from tests.museum.tables import check_sums, deleted_ids, marks
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.kept import kept_texts
from tests.support.planned import Limited, marks_by_kind, waiting_plans
from tests.support.rig import DEPLOYMENT, GRACE, listing, put

LONG, SHORT = 72 * HOUR, HOUR
NAMES = ("dropped_partition_retention_seconds", "dropped_index_retention_seconds", "compacted_rowset_retention_seconds")
OLD = {f"old{n}" for n in range(3)}
YOUNG = {f"young{n}" for n in range(8)}


def settings(retention: int) -> Policy:
    """Return the policy of a configuration in which every retention is the same."""
    every = dict.fromkeys((*NAMES, "retention_seconds"), retention)
    url = "postgresql://nobody@unused/shop"
    return Settings(deployment=DEPLOYMENT, database_url=url, recycle=RecycleSection(**every)).policy()


@pytest.fixture
def shop(database_url: str) -> Iterator[Limited]:
    rig = Limited(database_url).instance()
    rig.policy = settings(LONG)
    yield rig
    rig.db.close()


@pytest.fixture
def root(shop: Limited, tmp_path: Path) -> Path:
    """A vault with old garbage, due by the long retention, and young garbage of two kinds, due by the short one."""
    root = shop.local(tmp_path / "v")
    put(root, "live/a.dat", 7)
    shop.round()  # the long retention is what everybody agreed to
    for ids, then in ((OLD, 71 * HOUR), (YOUNG, HOUR + 1)):
        for i in sorted(ids):
            put(root, f"data/{i}.dat", 7)
            kind = "compacted" if i.endswith(("1", "3")) else "dropped"
            shop.mark(kind, NewMark(id=i, vault="disk", keys=(f"data/{i}.dat",), bytes=7))
        shop.later(then)
    return root


def files(*groups: set[str]) -> set[str]:
    return {"live/a.dat", *(f"data/{i}.dat" for ids in groups for i in ids)}


def test_loki_8359_shortened_retention_waits_for_approval(
    shop: Limited, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listing(root)
    shop.policy = settings(SHORT)

    unasked = [shop.round() for _ in range(3)]
    left = set(listing(root))
    [number] = waiting_plans(shop)
    shown = run(shop, capsys, "plan", "list", "shop", "--json")
    applied = shop.round(plan=number)
    after = shop.round()

    assert left == files(YOUNG)
    assert [r.claimed for r in unasked] == [len(OLD), 0, 0]
    assert all(kept_texts(r) == {f"approval of plan {number}": len(YOUNG)} for r in unasked)
    [waits] = [p for p in json.loads(shown.out)["items"] if p["state"] == "AWAITING_APPROVAL"]
    assert (waits["plan"], waits["marks"], set(waits["kinds"])) == (number, len(YOUNG), {"2 compacted", "6 dropped"})
    assert "its retention was shortened from 3 d to 1 h" in waits["awaits"]
    assert (applied.claimed, set(listing(root))) == (len(YOUNG), files())
    assert (after.claimed, waiting_plans(shop), marks(shop)) == (0, [], {})
    check_sums(shop, [*unasked, applied, after], before, listing(root))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["round.opened", "claim.committed", "files.deleted", "round.closed"])
def test_loki_8359_approval_survives_a_killed_worker(shop: Limited, root: Path, point: str) -> None:
    shop.policy = settings(SHORT)
    with pytest.raises(Crash), crash_points.installed(crash_at(point)):
        shop.round()
    shop.later(61)
    rounds = [shop.round(), shop.round()]

    [number] = waiting_plans(shop)
    assert set(listing(root)) == files(YOUNG)
    assert marks_by_kind(shop.rounds.plans.find_plan(number)) == {"compacted": 2, "dropped": 6}
    assert deleted_ids(shop) == OLD
    assert [r.state for r in rounds] == ["SUCCEEDED"] * 2


def test_loki_8359_retention_changed_back_deletes_nothing(shop: Limited, root: Path) -> None:
    shop.policy = settings(SHORT)
    shop.round()
    [number] = waiting_plans(shop)
    shop.policy = settings(LONG)

    with pytest.raises(PlanRefused, match="settings changed since"):
        shop.round(plan=number)
    back = shop.round()

    assert (back.claimed, set(listing(root))) == (0, files(YOUNG))
    assert waiting_plans(shop) == []


def test_loki_8359_cli_refuses_a_plan_of_other_settings(
    shop: Limited, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*NAMES, "retention_seconds"):
        monkeypatch.setenv(f"SEXTON_RECYCLE__{name.upper()}", str(SHORT))
    before = listing(root)
    plan = shop.plan_as_operator()  # by 72 h

    refused = run(shop, capsys, "apply", str(plan.id), "--yes")

    assert refused.code == 1
    assert f"settings changed since plan {plan.id}" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert listing(root) == before


def test_loki_8359_kind_without_retention_is_kept(shop: Limited, root: Path) -> None:
    rest = {kind: s for kind, s in shop.policy.retention_seconds.items() if kind != "dropped"}
    shop.policy = shop.policy.model_copy(update={"retention_seconds": rest, "version": "without"})
    shop.later(100 * LONG)

    report = shop.round()

    assert {i for i, state in marks(shop).items() if state == "MARKED"} == {
        i for i in OLD | YOUNG if not i.endswith(("1", "3"))
    }
    assert kept_texts(report) == {"kind dropped has no retention": 8}


@pytest.mark.slow
def test_loki_8359_dropped_partition_waits_for_approval(database_url: str, tmp_path: Path) -> None:
    shop = Shop(database_url).register()
    shop.local(tmp_path / "disk")
    shop.policy = settings(LONG)
    tablets = shop.table(tablets=2, partitions=["p1", "p2"])
    shop.loaded(tablets)
    before = listing(tmp_path / "disk")
    shop.round()
    shop.catalog.drop_partition("p1")
    shop.later(2 * HOUR)
    shop.policy = settings(SHORT)
    unasked = [shop.round() for _ in range(2)]
    left, refs = listing(tmp_path / "disk"), {r.kind for r in shop.refs()}
    with shop.db.read() as c:
        [number] = [p.id for p in shop.rounds.plans.approvals.waiting(c, "shop")]

    shop.round(plan=number)
    for _ in range(3):
        shop.later(GRACE + 1)
        shop.round()
    shop.close()

    assert (left, [r.deleted for r in unasked]) == (before, [0, 0])
    assert "tablet" not in refs
    assert 0 < len(listing(tmp_path / "disk")) < len(before)  # the other partition's
