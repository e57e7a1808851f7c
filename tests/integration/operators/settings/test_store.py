"""Settings are rows that only Sexton's own role reads and writes, and a round uses those in force."""

from pathlib import Path

import pytest

from config.live import LiveSettings
from config.settings import Settings, load
from sexton.contract import NewMark
from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.operators.settings import SettingStore
from sexton.recycle.model import PlanRefused
from sexton.recycle.planning.sql.measure import MOST_KINDS
from sexton.recycle.rounds.sql.reports import RoundSchedule
from tests.support.rig import Rig, listing, put

RETENTION = "recycle.dropped_partition_retention_seconds"


@pytest.fixture
def rig(database_url: str) -> Rig:
    return Rig(database_url).instance().instance("bank")


def live_of(rig: Rig) -> LiveSettings:
    """Return the settings as another process reads them, which reads rows each time."""
    return LiveSettings(load(), SettingStore(rig.db).all, max_age_seconds=0)


def test_put_replaces_or_refuses_and_remove_is_repeatable(rig: Rig) -> None:
    store = SettingStore(rig.db)
    store.put(RETENTION, "7200", reason="audit", by="anna")
    store.put(RETENTION, "3600", "shop", by="ben")
    replaced = store.put(RETENTION, "9000", by="carl")

    assert [(r.instance, r.value, r.set_by, r.reason) for r in store.all()] == [
        ("", "9000", "carl", ""),
        ("shop", "3600", "ben", ""),
    ]
    assert replaced.set_at <= store.now()
    assert [store.remove(RETENTION), store.remove(RETENTION), store.remove(RETENTION, "shop")] == [True, False, True]
    with pytest.raises(UnknownInstance):
        store.put(RETENTION, "7200", "nobody")
    for key, value in (("k" * 101, "1"), ("", "1"), (RETENTION, "1" * 101), (RETENTION, "")):
        with pytest.raises(BadInput, match="characters"):
            store.put(key, value)
    with pytest.raises(BadInput):
        store.put(RETENTION, "1\0")
    assert store.all() == []


def test_next_round_deletes_by_a_safe_retention_of_the_database(rig: Rig, tmp_path: Path) -> None:
    root, live = rig.local(tmp_path / "v"), live_of(rig)
    rig.drop(root, "data/a", "a")
    rig.later(3_700)
    policy, store = live.current.map(Settings.policy), SettingStore(rig.db)
    rig.policy = policy("shop")
    assert rig.round().deleted == 0
    for instance in ("", "shop"):
        store.put(RETENTION, "1", instance, by="another program")
    rig.policy = policy("shop")
    assert rig.round().deleted == 0  # both rows are unsafe
    assert [entry.row.instance for entry in live.ignored()] == ["", "shop"]

    store.remove(RETENTION)
    store.put(RETENTION, "3600", "shop")
    rig.policy = policy("shop")
    [waits] = [k for k in rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna").kinds if k.marks]

    assert (waits.kind, waits.marks) == ("dropped", 1)
    assert policy("bank").retention_seconds["dropped"] == 10_800
    assert rig.round().deleted == 0  # shortened, and nobody has agreed
    assert listing(root) == {"data/a": 10}


def test_due_instances_follow_their_own_interval(rig: Rig) -> None:
    interval = live_of(rig).current.map(lambda s: s.recycle.recycle_interval_seconds)
    schedule = RoundSchedule(rig.db, rig.controls, interval, 4)
    for name in ("shop", "bank"):
        rig.round(name)
    rig.later(100)
    before = schedule.due().instances

    SettingStore(rig.db).put("recycle.recycle_interval_seconds", "60", "bank")

    assert (before, schedule.due().instances) == ((), ("bank",))
    assert schedule.next_round("bank") < schedule.next_round("shop")


def test_fallback_retention_applies_to_kinds_until_it_ends(rig: Rig, tmp_path: Path) -> None:
    root, live = rig.local(tmp_path / "v"), live_of(rig)
    put(root, "data/a")
    rig.mark("snapshots", NewMark(id="a", vault="disk", keys=("data/a",)))
    rig.later(7_300)
    store, policy = SettingStore(rig.db), live.current.map(Settings.policy)
    rig.policy = policy("shop")
    without = rig.round()

    store.put("recycle.fallback_retention_seconds", "7200")
    plan = rig.rounds.plans.plan_for_operator("shop", policy("shop"), "anna")
    store.put("recycle.fallback_retention_seconds", "0", "shop")
    with pytest.raises(PlanRefused, match="settings changed"):
        rig.rounds.plans.approvals.check_apply(plan.id, "shop", policy("shop"))
    rig.policy = policy("shop")
    ended = rig.round()
    store.remove("recycle.fallback_retention_seconds", "shop")
    rig.policy = policy("shop")

    assert (without.deleted, sum(without.kept.values())) == (0, 1)
    assert (plan.marks, ended.deleted) == (1, 0)
    assert policy("shop").retention("dropped") == 10_800
    assert rig.round().deleted == 1
    assert listing(root) == {}


def test_fallback_applies_to_any_number_of_kinds(rig: Rig, tmp_path: Path) -> None:
    """No round plans what its own check of the order then refuses: that would fail each round, and delete nothing."""
    root, live = rig.local(tmp_path / "v"), live_of(rig)
    SettingStore(rig.db).put("recycle.fallback_retention_seconds", "7200")
    rig.policy = live.current.map(Settings.policy)("shop")
    kinds = [f"k{n:02}" for n in range(MOST_KINDS + 2)]
    for kind in reversed(kinds):
        put(root, f"data/{kind}")
        rig.mark(kind, NewMark(id="a", vault="disk", keys=(f"data/{kind}",)))
        rig.later(7_300 if kind == kinds[MOST_KINDS] else 0)  # the first ones by name are not due yet

    report = rig.round()

    assert (report.state, report.deleted) == ("SUCCEEDED", 2)
    assert listing(root).keys() == {f"data/{kind}" for kind in kinds[:MOST_KINDS]}
