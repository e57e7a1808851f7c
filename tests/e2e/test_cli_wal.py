"""The command `sexton wal` configures, explains and purges topics."""

import json

import pytest

from sexton.wal.sql.embedded_log import EmbeddedLog
from tests.e2e.conftest import Run, findings, items
from tests.support.rig import Rig
from tests.support.topics import make_topic

TOPIC = "orders-wal"


@pytest.fixture
def topic(shop: Rig) -> EmbeddedLog:
    """A topic of 300 entries, not enabled; region r1 has flushed up to 99, r2 up to 249, both told."""
    return make_topic(shop.db, TOPIC, 300, {"r1": 99, "r2": 249}, enabled=False, size=40)


def start(log: EmbeddedLog) -> int:
    """Return the first entry that is there."""
    return log.facts([TOPIC])[TOPIC].start  # type: ignore[union-attr]


def test_topic_commands_need_no_temporal(offline: Run, shop: Rig, topic: EmbeddedLog) -> None:
    off = offline("wal", "explain", TOPIC)
    enabled = offline("wal", "enable", TOPIC)
    people, as_json = offline("wal", "explain", TOPIC), json.loads(offline("wal", "explain", TOPIC, "--json").stdout)
    listed = json.loads(offline("wal", "list", "--json").stdout)["items"]
    status = offline("status")
    disabled = offline("wal", "disable", TOPIC)

    assert "blocked since" in off.stdout
    assert f"sexton wal enable {TOPIC}" in off.stdout
    assert (enabled.returncode, "is purged from now on" in enabled.stdout) == (0, True)
    assert "keep from: 100\nkept by: region r1\na purge frees: 99\n" in people.stdout
    assert "topics: 1 purged, 300 entries kept" in status.stdout
    assert [(line["region"]["region"], line["entries"]) for line in as_json["lines"]] == [("r1", 200), ("r2", 50)]
    assert [(t["name"], t["enabled"], t["floor"], t["lost_regions"]) for t in listed] == [(TOPIC, True, None, 0)]
    assert (disabled.returncode, shop.all_stores.wal.store.topic(TOPIC).enabled, start(topic)) == (0, False, 0)
    assert [c.action for c in shop.calls.last(2)] == ["wal disable", "wal enable"]


def test_topic_is_enabled_for_one_instance_and_assigned(offline: Run, shop: Rig, topic: EmbeddedLog) -> None:
    shop.registry.add_instance("lake")

    unnamed = offline("wal", "enable", TOPIC)
    other = offline("wal", "enable", TOPIC, "--instance", "lake")
    own = offline("wal", "enable", TOPIC, "--instance", "shop")
    assigned = offline("wal", "assign", TOPIC, "lake", "--reason", "a test", "--yes")
    listed = [json.loads(offline("wal", "list", i, "--json").stdout)["items"] for i in ("shop", "lake")]
    blockers = json.loads(offline("blockers", "lake", "--json").stdout)["items"]

    assert (unnamed.returncode, "name an instance" in unnamed.stderr) == (64, True)
    assert (other.returncode, "sexton wal assign orders-wal lake" in other.stderr) == (1, True)
    assert (own.returncode, assigned.returncode) == (0, 0)
    assert [[t["name"] for t in topics] for topics in listed] == [[], [TOPIC]]
    assert shop.all_stores.wal.store.topic(TOPIC).mapped_at is None
    [call] = shop.calls.last(1)
    assert (call.instance, call.subject, call.outcome) == ("shop", f"{TOPIC} to lake", "ok")
    assert {b["instance"] for b in blockers} == {"lake"}


@pytest.mark.slow
def test_purge_reports_freed_entries_and_blocking_regions(
    online: Run, shop: Rig, topic: EmbeddedLog, worker: None
) -> None:
    refused = online("wal", "purge", TOPIC)
    idle = [online("wal", word, TOPIC) for word in ("cancel", "progress")]
    online("wal", "enable", TOPIC)
    purged = online("wal", "purge", TOPIC)
    again = json.loads(online("wal", "purge", TOPIC, "--json").stdout)
    rows = items(online("wal", "purges", TOPIC, "--json"))
    shown = [online("wal", word, *more) for word, *more in (("purges", TOPIC), ("list",))]

    assert (refused.returncode, "BLOCKED" in refused.stdout, "not enabled" in refused.stdout) == (1, True, True)
    for ran in idle:
        assert (ran.returncode, "no purge of topic orders-wal is running" in ran.stderr) == (1, True)
    assert (purged.returncode, purged.stderr) == (0, "")
    assert "outcome: PURGED\nlast purged entry id: 99\nentries freed: 99\nkept by: region r1\n" in purged.stdout
    assert (again["outcome"], start(topic)) == ("NOTHING", 99)
    assert [(r["floor"], r["freed"], r["holders"]["region r1"]) for r in rows] == [(100, 99, 100)]
    assert "region r1 from 100" in shown[0].stdout
    assert "201" in shown[1].stdout


def test_lost_region_and_recreated_topic_are_reset(offline: Run, shop: Rig, topic: EmbeddedLog) -> None:
    settings = {"SEXTON_WAL__TRIGGER_FLUSH_ENTRIES": "100"}
    offline("wal", "enable", TOPIC)
    offline("wal", "explain", TOPIC)
    topic.delete_before({TOPIC: 150})
    lost, listed_lost = offline("wal", "explain", TOPIC), offline("wal", "list", **settings)
    [as_json] = items(offline("wal", "list", "--json", **settings))
    blockers = items(offline("blockers", "--json", **settings))
    unconfirmed = offline("wal", "reset", TOPIC, "--region", "r1", "--reason", "a test")
    region = offline("wal", "reset", TOPIC, "--region", "r1", "--reason", "a test", "--yes")
    after = offline("wal", "explain", TOPIC)
    topic.create(TOPIC)
    strange = offline("wal", "explain", TOPIC)
    listed = offline("wal", "list")
    anew = offline("wal", "reset", TOPIC, "--reason", "made anew for the test", "--yes")
    waits = offline("wal", "explain", TOPIC)

    assert "LOSS: region r1 needs entries 100..149" in lost.stdout
    assert "LOSS in 1 region; blocked by 1 region far behind" in " ".join(listed_lost.stdout.split())
    assert (as_json["lost_regions"], as_json["lagging_regions"]) == (1, 1)
    assert [(b["held_by"], b["count"]) for b in blockers if TOPIC in b["what"]] == [("LOSS", 1), ("region r1", 1)]
    assert (unconfirmed.returncode, "Aborted" in unconfirmed.stderr) == (1, True)
    assert (region.returncode, "needs topic orders-wal from entry 150 on" in region.stdout) == (0, True)
    assert "LOSS" not in after.stdout
    assert "QUARANTINED" in strange.stdout
    assert "QUARANTINED" in listed.stdout
    assert (anew.returncode, "must be sent again" in waits.stdout) == (0, True)
    assert [(c.action, c.subject, c.reason) for c in reversed(shop.calls.last(2))] == [
        ("wal reset", f"{TOPIC} r1", "a test"),
        ("wal reset", TOPIC, "made anew for the test"),
    ]


def test_doctor_names_unhealthy_topics_until_their_maps_return(offline: Run, shop: Rig, topic: EmbeddedLog) -> None:
    none = findings(offline)
    offline("wal", "enable", TOPIC)
    shop.sql("UPDATE {}wal_log SET compacted = true")
    shop.later(2 * 86_400)
    offline("wal", "explain", TOPIC)
    found = findings(offline)
    restored = offline("wal", "restored", "--reason", "from last night")

    assert "topics" not in none
    assert "compacted" in found["topics"]["detail"]
    assert (found["purges"]["state"], "map stale" in found["purges"]["detail"]) == ("WARN", True)
    assert "1 enabled topic wait" in restored.stdout
    assert "must be sent again" in offline("wal", "explain", TOPIC).stdout
