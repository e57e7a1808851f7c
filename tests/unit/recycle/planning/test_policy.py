"""Kinds are deleted in waves, and a policy has a version."""

import pytest

from config.settings import owner_policy
from sexton.kernel.errors import BadInput
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.policy import cutoff, for_owner, policy, waves


def test_kinds_without_order_are_in_one_wave() -> None:
    assert waves({"b", "a"}, {}) == [["a", "b"]]


def test_kind_is_in_a_wave_after_its_predecessors() -> None:
    after = {"index": ["tablet"], "table": ["index", "partition"], "partition": ["tablet"]}

    assert waves({"table", "index", "partition", "tablet"}, after) == [["tablet"], ["index", "partition"], ["table"]]


def test_predecessor_outside_the_plan_is_ignored() -> None:
    assert waves({"index"}, {"index": ["tablet"]}) == [["index"]]


@pytest.mark.parametrize("after", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["c"], "b": ["a"], "c": ["b"]}])
def test_circular_order_is_refused(after: dict[str, list[str]]) -> None:
    with pytest.raises(BadInput, match="circle"):
        policy(dict.fromkeys("abc", 600), 600, after)


def test_order_changes_the_policy_version() -> None:
    plain, ordered = policy({"a": 600}, 600), policy({"a": 600, "b": 600}, 600, {"a": ["b"]})

    assert policy({"a": 600}, 600, {}).version == plain.version
    assert policy({"a": 600, "b": 600}, 600).version != ordered.version


RETENTIONS = {"table": 3_600, "index": 3_600, "partition": 7_200, "tablet": 0}
OWNERS = {"catalog": owner_policy(PLUGIN, RETENTIONS)}


def test_owners_change_the_policy_version_and_limits_do_not() -> None:
    plain, owned = policy({"a": 600}, 600), policy({"a": 600}, 600, owners=OWNERS)
    longer = policy({"a": 600}, 600, owners={"catalog": owner_policy(PLUGIN, RETENTIONS | {"table": 9_999})})

    assert len({plain.version, owned.version, longer.version}) == 3
    assert policy({"a": 600}, 600, owners={}, max_delete_objects=5, unlimited=["a"]).version == plain.version


def test_order_and_owners_of_one_text_are_different_policies() -> None:
    order = policy({"a": 600, "b": 600}, 600, {"a": ["b"]})

    assert policy({"a": 600, "b": 600}, 600, {"a": ["b"]}, owners=OWNERS).version != order.version


def test_owners_kinds_replace_those_of_the_settings() -> None:
    settings_policy = policy({"table": 60_000, "snapshot": 600}, 600, {"table": ["snapshot"]}, owners=OWNERS)

    catalog, sql = for_owner(settings_policy, "catalog"), for_owner(settings_policy, "sql")

    assert catalog.retention_seconds == {
        "table": 3_600,
        "index": 3_600,
        "partition": 7_200,
        "tablet": 0,
        "snapshot": 600,
    }
    assert catalog.after["table"] == ("index", "partition", "tablet")
    assert (sql.retention_seconds, sql.after) == (settings_policy.retention_seconds, settings_policy.after)
    assert catalog.version == sql.version == settings_policy.version
    assert for_owner(catalog, "catalog") == catalog


def test_tablets_precede_their_rowsets_and_parents() -> None:
    kinds = {"compacted", "dropped", "prepared", "table", "index", "partition", "tablet", "txn_label"}

    order = waves(kinds, for_owner(policy({}, 600, owners=OWNERS), "catalog").after)

    assert order == [["tablet", "txn_label"], ["compacted", "index", "partition", "prepared"], ["dropped", "table"]]


def test_a_mark_is_due_when_its_whole_retention_has_passed() -> None:
    now = 1_000_000_000_000

    assert cutoff("a", policy({"a": 10_800}, 600), now) == now - 10_800_000
    assert cutoff("unknown", policy({"a": 10_800}, 600), now) is None
