"""Waves of kinds, turns of instances, and when a round is tried again."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.recycle.model import RoundReport
from sexton.recycle.planning.policy import for_owner, policy, retry_at, turn, waves

MINUTE = 60_000


def test_kinds_without_order_go_together() -> None:
    assert waves({"b", "a"}, {}) == [["a", "b"]]


def test_a_kind_goes_after_all_that_precede_it() -> None:
    after = {"index": ["tablet"], "table": ["index", "partition"], "partition": ["tablet"]}

    assert waves({"table", "index", "partition", "tablet"}, after) == [["tablet"], ["index", "partition"], ["table"]]


def test_a_predecessor_that_is_not_to_go_holds_nobody_up() -> None:
    assert waves({"index"}, {"index": ["tablet"]}) == [["index"]]


@pytest.mark.parametrize("after", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["c"], "b": ["a"], "c": ["b"]}])
def test_a_circle_is_refused(after: dict[str, list[str]]) -> None:
    with pytest.raises(BadInput, match="circle"):
        policy(dict.fromkeys("abc", 600), 600, after)


def test_an_order_makes_another_policy_and_none_leaves_the_version_as_it_was() -> None:
    plain, ordered = policy({"a": 600}, 600), policy({"a": 600, "b": 600}, 600, {"a": ["b"]})

    assert policy({"a": 600}, 600, {}).version == plain.version
    assert policy({"a": 600, "b": 600}, 600).version != ordered.version


OWNERS = {"catalog": {"table": 3_600, "index": 3_600, "partition": 7_200, "tablet": 0}}


def test_owners_make_another_policy_and_limits_do_not() -> None:
    plain, owned = policy({"a": 600}, 600), policy({"a": 600}, 600, owners=OWNERS)
    longer = policy({"a": 600}, 600, owners={"catalog": OWNERS["catalog"] | {"table": 9_999}})

    assert len({plain.version, owned.version, longer.version}) == 3
    assert policy({"a": 600}, 600, owners={}, max_delete_objects=5, unlimited=["a"]).version == plain.version


def test_the_same_text_as_order_and_as_owners_is_not_the_same_policy() -> None:
    order = policy({"a": 600, "b": 600}, 600, {"a": ["b"]})

    assert policy({"a": 600, "b": 600}, 600, {"a": ["b"]}, owners=OWNERS).version != order.version


def test_an_owners_kinds_win_over_those_of_the_settings_and_only_for_its_instances() -> None:
    given = policy({"table": 60_000, "snapshot": 600}, 600, {"table": ["snapshot"]}, owners=OWNERS)

    catalog, sql = for_owner(given, "catalog"), for_owner(given, "sql")

    assert catalog.retention_seconds == {
        "table": 3_600,
        "index": 3_600,
        "partition": 7_200,
        "tablet": 0,
        "snapshot": 600,
    }
    assert catalog.after["table"] == ("index", "partition", "tablet")
    assert (sql.retention_seconds, sql.after) == (given.retention_seconds, given.after)
    assert catalog.version == sql.version == given.version
    assert for_owner(catalog, "catalog") == catalog


def test_a_tablet_goes_before_what_it_takes_along_and_before_what_is_above_it() -> None:
    kinds = {"compacted", "dropped", "prepared", "table", "index", "partition", "tablet", "txn_label"}

    found = waves(kinds, for_owner(policy({}, 600), "catalog").after)

    assert found == [["tablet", "txn_label"], ["compacted", "index", "partition", "prepared"], ["dropped", "table"]]


def test_turns_stay_an_interval_apart_although_ticks_come_late() -> None:
    turns = [turn(None, MINUTE, 1_000)]
    for late in (0, 14_000, 3_000):
        turns.append(turn(turns[-1], MINUTE, turns[-1] + MINUTE + late))

    assert turns == [1_000, 61_000, 121_000, 181_000]


def test_an_early_round_and_a_long_absence_begin_anew() -> None:
    assert turn(0, MINUTE, 10_000) == 10_000
    assert turn(0, MINUTE, 10 * MINUTE + 5) == 10 * MINUTE + 5


def ended(state: str, faults: int = 0) -> RoundReport:
    return RoundReport(round=1, instance="shop", state=state, faults=faults)


def test_failed_rounds_are_tried_again_later_each_time_and_an_hour_later_at_most() -> None:
    waits = [retry_at(ended("FAILED"), n, 0) for n in range(9)]

    assert waits[:4] == [30_000, 60_000, 120_000, 240_000]
    assert waits[-1] == 3_600_000


def test_a_stopped_round_is_due_at_once_and_a_cancelled_one_at_its_next_turn() -> None:
    assert retry_at(ended("STOPPED", 3), 3, 77) == 77
    assert (retry_at(ended("CANCELLED", 3), 0, 77), retry_at(ended("SUCCEEDED"), 0, 77)) == (None, None)


def test_a_round_that_could_not_reach_a_vault_is_tried_again_like_a_failed_one() -> None:
    assert retry_at(ended("SUCCEEDED", 3), 0, 0) == 30_000
