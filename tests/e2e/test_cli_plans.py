"""Plans, approvals and previews need Temporal only to apply a plan."""

import json
from typing import Any

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.storage.model import Probe
from tests.e2e.conftest import Run, items
from tests.support.kept import kept_texts
from tests.support.planned import limited_policy, waiting_plans
from tests.support.rig import Rig

RETENTION = "recycle.dropped_partition_retention_seconds"
FEW = {"SEXTON_RECYCLE__MAX_DELETE_OBJECTS": "2"}


@pytest.fixture
def waits(shop: Rig) -> int:
    """A plan that waits for a person: three dropped objects, where two may go."""
    shop.registry.enable("shop")
    marks = [NewMark(id=f"m{n}", vault="disk", keys=(f"m{n}/a.dat",), parent=("table", "12")) for n in (1, 2)]
    shop.mark("dropped", *marks)
    shop.later(10_801)
    shop.rounds.plans.plan_for_round("shop", limited_policy(objects=2), "scheduled")
    [number] = waiting_plans(shop)
    return number


@pytest.mark.slow
def test_waiting_plan_is_applied_by_an_operator(online: Run, shop: Rig, worker: None, waits: int) -> None:
    plan = json.loads(online("plan", "shop", "--json", **FEW).stdout)["plan"]["plan"]

    report = json.loads(online("apply", str(plan), "--yes", "--json").stdout)
    [row] = [p for p in json.loads(online("plan", "list", "--json").stdout)["items"] if p["plan"] == plan]

    assert (report["state"], report["claimed"]) == ("SUCCEEDED", 3)
    assert (row["state"], bool(row["approved_by"])) == ("APPLIED", True)


def test_a_plan_names_where_versioning_is_suspended(offline: Run, shop: Rig) -> None:
    shop.registry.store_probe("shop", "disk", Probe(versioning="Suspended"))

    for words in (("plan", "shop"), ("plan", "show", "1")):
        assert "versioning is suspended in disk: what was written since" in offline(*words).stdout


def test_waiting_plan_is_listed_after_any_number_of_newer_ones(offline: Run, shop: Rig, waits: int) -> None:
    shop.mark("compacted", NewMark(id="c", vault="disk", keys=("c.dat",)))
    shop.later(1_801)
    for _ in range(3):
        shop.rounds.plans.plan_for_round("shop", limited_policy(objects=2), "scheduled")

    listed = json.loads(offline("plan", "list", "shop", "--last", "2", "--json").stdout)["items"]

    assert waits in [p["plan"] for p in listed]
    assert len(listed) == 3


def test_enable_agrees_to_the_present_retentions(offline: Run, shop: Rig) -> None:
    shop.registry.add_instance("new")
    offline("enable", "new")
    shop.mark("dropped", NewMark(id="m", vault="disk", keys=("m/a.dat",)), instance="new")
    shop.later(5_000)

    changes = {"retention_seconds": {"dropped": 3_600}, "version": "shorter"}
    shorter = limited_policy(objects=1_000).model_copy(update=changes)
    plan = shop.rounds.plans.plan_for_round("new", shorter, "scheduled")

    assert plan.marks == 0
    assert [k for k in kept_texts(plan) if k.startswith("approval of plan")]


def test_plan_shows_its_cost_and_what_needs_approval(offline: Run, waits: int) -> None:
    def plan(*words: str, **extra: str) -> Any:
        return json.loads(offline("plan", *words, "--json", **extra).stdout)

    shown, verb, alone = offline("plan", "shop", **FEW), plan("new", "shop", **FEW), offline("plan", **FEW)
    few = plan("shop", **FEW)
    priced = plan("shop", SEXTON_PRICES__DELETE_PER_1000_REQUESTS="5000", SEXTON_PRICES__CURRENCY="EUR")

    assert (shown.returncode, alone.returncode, "plan" in alone.stdout) == (2, 2, True)
    cost = "about 3 objects: 1 DELETE and 0 LIST requests, ~0.00 USD, less than a minute at 3,500 objects/s"
    assert cost in shown.stdout
    assert "not deleted without approval: dropped: 3 marks with 3 objects are due" in shown.stdout
    assert "max_delete_objects is 2" in shown.stdout
    assert [p["plan"]["kinds"][0]["marks"] for p in (few, verb)] == [3, 3]
    assert (few["estimate"]["objects"], few["estimate"]["delete_requests"]) == (3, 1)
    assert "max_delete_objects" in few["plan"]["kinds"][0]["awaits"]
    assert (priced["estimate"]["money"], priced["estimate"]["currency"]) == (5.0, "EUR")


def test_n3_plan_names_the_limit_that_is_not_in_force(offline: Run, waits: int) -> None:
    without_fraction = offline("plan", "shop", SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    assert "note: max_delete_fraction is not in force" in offline("plan", "shop").stdout
    assert "note:" not in without_fraction.stdout


def test_waiting_plan_is_listed_with_the_command_to_apply_it(offline: Run, shop: Rig, waits: int) -> None:
    shop.registry.add_instance("empty")
    shop.registry.enable("empty")
    nothing_due = json.loads(offline("plan", "empty", "--json").stdout)
    listed, none = offline("plan", "list"), items(offline("plan", "list", "empty", "--json"))
    programs = {p["plan"]: p for p in items(offline("plan", "list", "shop", "--json"))}
    status, blockers = offline("status").stdout, offline("blockers", "shop").stdout
    other_settings = offline("apply", str(waits), "--yes")
    offline("hold", "add", "shop", "--for", "1d", "--reason", "audit")
    shown = offline("plan", "show", str(waits))
    review = json.loads(offline("plan", "show", str(waits), "--json").stdout)

    assert (nothing_due["plan"]["plan"], none) == (0, [])
    assert (listed.returncode, "AWAITING_APPROVAL" in listed.stdout) == (0, True)
    assert programs.keys() == {waits}
    assert (programs[waits]["state"], programs[waits]["planned_by"]) == ("AWAITING_APPROVAL", "scheduled")
    assert [f"apply {waits}" in said for said in (listed.stdout, status, blockers)] == [True] * 3
    assert "waits for approval since" in status
    assert f"approval of plan {waits}" in blockers
    assert (other_settings.returncode, f"settings changed since plan {waits}" in other_settings.stderr) == (1, True)
    assert (shown.returncode, shown.stdout.split(",")[0]) == (0, "AWAITING_APPROVAL")
    for text in ("hold 1 blocks the whole instance", "dropped/m1", "table/12", "max_delete_objects is 2"):
        assert text in shown.stdout
    assert (review["row"]["state"], len(review["marks"])) == ("AWAITING_APPROVAL", 3)
    assert review["holds"][0]["reason"] == "audit"


def test_apply_shows_the_cost_and_newer_holds_and_asks(offline: Run, shop: Rig, waits: int) -> None:
    plan = str(json.loads(offline("plan", "shop", "--json", **FEW).stdout)["plan"]["plan"])
    free = offline("apply", plan, **FEW)
    offline("hold", "add", "--mark", "dropped/m1", "--for", "1d", "--reason", "audit")
    held = offline("apply", plan, **FEW)
    with shop.db.write() as c:
        contract.undrop(c, "shop", "dropped", ["m1"])
    outdated = offline("apply", plan, "--yes", **FEW)

    assert (free.returncode, "--yes" in free.stderr) == (1, True)
    assert "about 3 objects" in free.stdout
    assert "max_delete_objects is 2" in free.stdout
    assert "hold 1 blocks dropped m1 and its descendants" in held.stdout
    assert "kept: nothing" not in held.stdout
    assert outdated.returncode == 1
    assert "dropped: 3 → 2 marks (1 undropped, deleted, claimed or quarantined)" in outdated.stderr
    assert "sexton plan shop" in outdated.stderr


def test_apply_names_what_it_will_list_before_it_asks(offline: Run, shop: Rig) -> None:
    shop.registry.enable("shop")
    shop.mark("dropped", NewMark(id="p", vault="disk", prefix="p/"))
    shop.later(10_801)
    said = []
    for words in ((), ("--count",)):
        plan = json.loads(offline("plan", "shop", "--json", *words).stdout)["plan"]["plan"]
        said.append(offline("apply", str(plan)).stdout)

    assert "it will list 1 prefix first, and delete every object there; the estimate is 11 objects" in said[0]
    assert "it will list" not in said[1]


def test_preview_shows_the_effect_of_another_retention(offline: Run, waits: int) -> None:
    with_policy = offline("plan", "shop")  # nobody has agreed by looking
    shorter = offline("settings", "preview", "recycle.retention_seconds", "600")
    [less] = json.loads(offline("settings", "preview", RETENTION, "86400", "--json").stdout)["shifts"]

    assert with_policy.returncode == 2
    assert "no waiting mark becomes due, or is no longer due" in shorter.stdout
    assert (less["kind"], less["more"], less["marks"], less["objects"]) == ("dropped", False, 3, 3)
    assert (less["before"], less["after"], less["asks"]) == (10_800, 86_400, False)
