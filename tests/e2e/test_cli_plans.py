"""Plans, approvals and previews need Temporal only to apply a plan."""

import json

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.operators.settings.store import SettingStore
from sexton.recycle.planning.sql.plans import PlanStore
from tests.e2e.conftest import Run
from tests.support.kept import kept_texts
from tests.support.planned import limited_policy

RETENTION = "recycle.dropped_partition_retention_seconds"
FEW = {"SEXTON_RECYCLE__MAX_DELETE_OBJECTS": "2"}


@pytest.fixture
def waits(shop: Database) -> int:
    """A plan that waits for a person: three dropped objects, where two may go."""
    Registry(shop).enable("shop")
    with shop.write() as c:
        marks = [NewMark(id=f"m{n}", vault="disk", keys=(f"m{n}/a.dat",), parent=("table", "12")) for n in (1, 2)]
        contract.mark(c, "shop", "dropped", marks)
    schema.move_clock(shop, 10_801)
    store = PlanStore(shop)
    store.plan_for_round("shop", limited_policy(objects=2), "scheduled")
    with shop.read() as c:
        [row] = store.approvals.waiting(c, "shop")
    return row.id


def test_plan_shows_its_cost_and_what_needs_approval(offline: Run, waits: int) -> None:
    shown = offline("plan", "shop", **FEW)
    plan = json.loads(offline("plan", "shop", "--json", **FEW).stdout)

    assert shown.returncode == 2
    assert (
        "about 3 objects: 1 DELETE and 0 LIST requests, ~0.00 USD, less than a minute at 3,500 objects/s"
        in shown.stdout
    )
    assert "not deleted without approval: dropped: 3 marks with 3 objects are due" in shown.stdout
    assert "max_delete_objects is 2" in shown.stdout
    assert (plan["estimate"]["objects"], plan["estimate"]["delete_requests"]) == (3, 1)
    assert "max_delete_objects" in plan["plan"]["kinds"][0]["awaits"]


def test_plan_uses_the_prices_of_the_settings(offline: Run, waits: int) -> None:
    plan = json.loads(
        offline(
            "plan", "shop", "--json", SEXTON_PRICES__DELETE_PER_1000_REQUESTS="5000", SEXTON_PRICES__CURRENCY="EUR"
        ).stdout
    )

    assert (plan["estimate"]["money"], plan["estimate"]["currency"]) == (5.0, "EUR")


def test_n3_plan_names_the_limit_that_is_not_in_force(offline: Run, waits: int) -> None:
    without_fraction = offline("plan", "shop", SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    assert "note: max_delete_fraction is not in force" in offline("plan", "shop").stdout
    assert "note:" not in without_fraction.stdout


def test_waiting_plan_is_listed_with_the_command_to_apply_it(offline: Run, waits: int) -> None:
    listed = offline("plan", "list")
    programs = {p["plan"]: p for p in json.loads(offline("plan", "list", "shop", "--json").stdout)["items"]}
    status, holds = offline("status").stdout, offline("blockers", "shop").stdout

    assert listed.returncode == 0
    assert "AWAITING_APPROVAL" in listed.stdout
    assert programs[waits]["state"] == "AWAITING_APPROVAL"
    assert programs[waits]["planned_by"] == "scheduled"
    for said in (listed.stdout, status, holds):
        assert f"apply {waits}" in said
    assert "waits for approval since" in status
    assert f"approval of plan {waits}" in holds


def test_listing_plans_creates_none(offline: Run, shop: Database) -> None:
    before = offline("plan", "list")
    offline("plan", "list", "shop")

    assert "no plan was made yet" in before.stdout
    assert json.loads(offline("plan", "list", "--json").stdout)["items"] == []


def test_outdated_plan_is_refused_before_the_confirmation(offline: Run, shop: Database, waits: int) -> None:
    plan = json.loads(offline("plan", "shop", "--json").stdout)["plan"]["plan"]
    with shop.write() as c:
        contract.undrop(c, "shop", "dropped", ["m1"])

    refused = offline("apply", str(plan), "--yes")

    assert refused.returncode == 1
    assert "dropped: 3 → 2 marks (1 undropped, deleted, claimed or quarantined)" in refused.stderr
    assert "sexton plan shop" in refused.stderr


def test_a_plan_of_other_settings_is_refused(offline: Run, waits: int) -> None:
    refused = offline("apply", str(waits), "--yes")

    assert refused.returncode == 1
    assert f"settings changed since plan {waits}" in refused.stderr


def test_apply_shows_the_cost_and_asks(offline: Run, waits: int) -> None:
    plan = json.loads(offline("plan", "shop", "--json", **FEW).stdout)["plan"]["plan"]

    unconfirmed = offline("apply", str(plan), **FEW)

    assert unconfirmed.returncode == 1
    assert "about 3 objects" in unconfirmed.stdout
    assert "max_delete_objects is 2" in unconfirmed.stdout
    assert "--yes" in unconfirmed.stderr


@pytest.mark.slow
def test_waiting_plan_is_applied_by_an_operator(online: Run, shop: Database, worker: None, waits: int) -> None:
    plan = json.loads(online("plan", "shop", "--json", **FEW).stdout)["plan"]["plan"]

    report = json.loads(online("apply", str(plan), "--yes", "--json").stdout)
    [row] = [p for p in json.loads(online("plan", "list", "--json").stdout)["items"] if p["plan"] == plan]

    assert (report["state"], report["claimed"]) == ("SUCCEEDED", 3)
    assert (row["state"], bool(row["approved_by"])) == ("APPLIED", True)


def test_preview_shows_the_effect_of_another_retention(offline: Run, waits: int) -> None:
    with_policy = offline("plan", "shop")  # nobody has agreed by looking
    shorter = offline("settings", "preview", "recycle.retention_seconds", "600")
    as_json = offline("settings", "preview", RETENTION, "86400", "--json")

    [less] = json.loads(as_json.stdout)["shifts"]
    assert with_policy.returncode == 2
    assert "no waiting mark becomes due, or is no longer due" in shorter.stdout
    assert (less["kind"], less["more"], less["marks"], less["objects"]) == ("dropped", False, 3, 3)
    assert (less["before"], less["after"], less["asks"]) == (10_800, 86_400, False)


def test_preview_of_a_shorter_retention_names_the_approval(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    PlanStore(shop).plan_for_round("shop", limited_policy(), "scheduled")
    with shop.write() as c:
        contract.mark(c, "shop", "dropped", [NewMark(id="young", vault="disk", keys=("y/a.dat",), bytes=2_048)])
    schema.move_clock(shop, 4_000)

    shown = offline("settings", "preview", RETENTION, "3600", "--instance", "shop")

    assert shown.returncode == 0
    assert "dropped 3h 1h 1 yes" in " ".join(shown.stdout.split())
    assert "2.0 KiB" in shown.stdout
    assert "shop: marks that become due only by this change wait in the first plan after it" in shown.stdout
    assert SettingStore(shop).all() == []


def test_wrong_argument_is_refused_in_a_sentence(offline: Run, shop: Database) -> None:
    for words, code, says in [
        (("settings", "preview"), 64, "KEY"),
        (("settings", "preview", RETENTION, "5"), 1, "_seconds = 5 (as given) is below its floor"),
        (("settings", "preview", "recycle.retention_second", "5000"), 1, "did you mean recycle.retention_seconds"),
        (("settings", "preview", "retention_seconds", "5000"), 1, "is not a setting"),
        (("settings", "preview", RETENTION, "5000", "--instance", "nobody"), 1, "unknown instance nobody"),
        (("plan", "list", "nobody"), 1, "unknown instance nobody"),
        (("apply", "4711"), 1, "there is no plan 4711"),
    ]:
        refused = offline(*words)

        assert refused.returncode == code
        assert says in refused.stderr


def test_waiting_plan_is_listed_after_any_number_of_newer_ones(offline: Run, shop: Database, waits: int) -> None:
    with shop.write() as c:
        contract.mark(c, "shop", "compacted", [NewMark(id="c", vault="disk", keys=("c.dat",))])
    schema.move_clock(shop, 1_801)
    for _ in range(3):
        PlanStore(shop).plan_for_round("shop", limited_policy(objects=2), "scheduled")

    listed = json.loads(offline("plan", "list", "shop", "--last", "2", "--json").stdout)["items"]

    assert waits in [p["plan"] for p in listed]
    assert len(listed) == 3


def test_empty_plan_is_not_stored(offline: Run, shop: Database) -> None:
    Registry(shop).add_instance("empty")
    Registry(shop).enable("empty")

    plan = json.loads(offline("plan", "empty", "--json").stdout)

    assert plan["plan"]["plan"] == 0
    assert json.loads(offline("plan", "list", "empty", "--json").stdout)["items"] == []


def test_enable_agrees_to_the_present_retentions(offline: Run, shop: Database) -> None:
    Registry(shop).add_instance("new")
    offline("enable", "new")
    with shop.write() as c:
        contract.mark(c, "new", "dropped", [NewMark(id="m", vault="disk", keys=("m/a.dat",))])
    schema.move_clock(shop, 5_000)

    shorter = limited_policy(objects=1_000).model_copy(
        update={"retention_seconds": {"dropped": 3_600}, "version": "shorter"}
    )
    plan = PlanStore(shop).plan_for_round("new", shorter, "scheduled")

    assert plan.marks == 0
    assert [k for k in kept_texts(plan) if k.startswith("approval of plan")]


def test_vault_of_an_empty_variable_is_refused(offline: Run, shop: Database) -> None:
    bucket, root = (
        offline("vault", "add", "shop", "b", "--s3", "data/"),
        offline("vault", "add", "shop", "r", "--local", "/"),
    )

    assert (bucket.returncode, root.returncode) == (64, 1)
    assert "is a variable empty?" in bucket.stderr
    assert "is a variable empty?" in root.stderr


def test_plan_without_a_verb_makes_a_new_one(offline: Run, waits: int) -> None:
    short, verb = (offline("plan", *words, "--json", **FEW) for words in (("shop",), ("new", "shop")))
    alone = offline("plan", **FEW)

    assert [json.loads(p.stdout)["plan"]["kinds"][0]["marks"] for p in (short, verb)] == [3, 3]
    assert (alone.returncode, "plan" in alone.stdout) == (2, True)


def test_plan_show_prints_state_holds_and_marks(offline: Run, waits: int) -> None:
    offline("hold", "add", "shop", "--for", "1d", "--reason", "audit")

    shown = offline("plan", "show", str(waits))
    review = json.loads(offline("plan", "show", str(waits), "--json").stdout)

    assert (shown.returncode, shown.stdout.split(",")[0]) == (0, "AWAITING_APPROVAL")
    for text in ("hold 1 blocks the whole instance", "dropped/m1", "table/12", "max_delete_objects is 2"):
        assert text in shown.stdout
    assert (review["row"]["state"], len(review["marks"]), review["holds"][0]["reason"]) == (
        "AWAITING_APPROVAL",
        3,
        "audit",
    )


def test_plan_show_names_what_is_missing(offline: Run, shop: Database) -> None:
    unknown, no_number = offline("plan", "show", "4711"), offline("plan", "show", "shop")

    assert (unknown.returncode, no_number.returncode) == (1, 64)
    assert "there is no plan 4711" in unknown.stderr


def test_former_words_of_plan_name_the_command(offline: Run) -> None:
    for words, hint in [
        (("--list",), "sexton plan list"),
        (("shop", "--list"), "sexton plan list"),
        (("apply", "1"), "sexton apply PLAN"),
    ]:
        refused = offline("plan", *words)

        assert (refused.returncode, hint in refused.stderr) == (64, True)


def test_apply_names_a_hold_that_is_newer_than_the_plan(offline: Run, waits: int) -> None:
    plan = json.loads(offline("plan", "shop", "--json", **FEW).stdout)["plan"]["plan"]
    offline("hold", "add", "--mark", "dropped/m1", "--for", "1d", "--reason", "audit")

    unconfirmed = offline("apply", str(plan), **FEW)

    assert "hold 1 blocks dropped m1 and its descendants" in unconfirmed.stdout
    assert "kept: nothing" not in unconfirmed.stdout
