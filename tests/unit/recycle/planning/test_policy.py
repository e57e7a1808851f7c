"""Kinds are deleted in waves, and a policy has a version."""

import pytest

from config.settings import owner_policy
from sexton.kernel.errors import BadInput
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.policy import cutoff, for_owner, policy, waves


def test_kind_is_in_a_wave_after_its_predecessors() -> None:
    after = {"index": ["tablet"], "table": ["index", "partition"], "partition": ["tablet"]}

    assert waves({"b", "a"}, {}) == [["a", "b"]]
    assert waves({"table", "index", "partition", "tablet"}, after) == [["tablet"], ["index", "partition"], ["table"]]
    assert waves({"index"}, {"index": ["tablet"]}) == [["index"]]  # one outside the plan is ignored
    for circle in ({"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["c"], "b": ["a"], "c": ["b"]}):
        with pytest.raises(BadInput, match="circle"):
            policy(dict.fromkeys("abc", 600), 600, circle)


RETENTIONS = {"table": 3_600, "index": 3_600, "partition": 7_200, "tablet": 0}
OWNERS = {"catalog": owner_policy(PLUGIN, RETENTIONS)}


def test_order_and_owners_change_the_policy_version() -> None:
    longer = {"catalog": owner_policy(PLUGIN, RETENTIONS | {"table": 9_999})}
    kinds = {"a": 600, "b": 600}
    versions = [
        policy({"a": 600}, 600).version,
        policy({"a": 600}, 600, owners=OWNERS).version,
        policy({"a": 600}, 600, owners=longer).version,
        policy(kinds, 600).version,
        policy(kinds, 600, {"a": ["b"]}).version,
        policy(kinds, 600, {"a": ["b"]}, owners=OWNERS).version,
    ]

    assert len(set(versions)) == len(versions)
    assert policy({"a": 600}, 600, {}).version == versions[0]
    assert policy({"a": 600}, 600, owners={}, max_delete_objects=5, unlimited=["a"]).version == versions[0]


def test_owners_kinds_replace_those_of_the_settings() -> None:
    settings_policy = policy({"table": 60_000, "snapshot": 600}, 600, {"table": ["snapshot"]}, owners=OWNERS)

    catalog, sql = for_owner(settings_policy, "catalog"), for_owner(settings_policy, "sql")

    assert catalog.retention_seconds == RETENTIONS | {"snapshot": 600}
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
