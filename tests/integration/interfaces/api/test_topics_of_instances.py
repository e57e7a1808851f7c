"""A topic belongs to one instance: a token of another one neither sees nor changes it. Topic ``orders`` is of ``a``."""

from collections.abc import Iterator
from typing import Any

import pytest

from sexton.kernel.live import Live
from sexton.operators.call_log import CallStore
from sexton.wal.model import Mode
from sexton.wal.policy import LeaderReport, MapOrder, OpenRegionOrder, RegionMapping, Stream
from tests.integration.interfaces.api.conftest import Ask
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig

MAP = {"generation": 9, "regions": [{"region": "r1", "first": 0, "node": "n1"}]}
REPORTS = {
    "url": "http://127.0.0.1:9",
    "reports": [{"topic": "orders", "region": "r1", "epoch": 1, "streams": [{"flushed": 7}]}],
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig(new_database()).instance("a").instance("b")
    yield rig
    rig.db.close()


@pytest.fixture(scope="module")
def api(rig: Rig) -> Iterator[Api]:
    with Api(rig) as served:
        wal = served.app.state.service.stores.wal
        mapping = RegionMapping(region="r1", first=0, node="n1")
        wal.maps.put(MapOrder(instance="a", topic="orders", generation=1, regions=(mapping,)))
        wal.store.enable("orders", Mode.DELETE, "a")
        report = LeaderReport(topic="orders", region="r1", epoch=0, streams=(Stream(flushed=3),))
        wal.heartbeats.record_reports("a", "n1", [report], "http://127.0.0.1:1")
        yield served


def rows(rig: Rig) -> dict[str, list[Any]]:
    """Return what is stored about topics, regions, replays and nodes."""
    tables = ("wal_topic", "wal_region", "wal_pin", "wal_node")
    return {table: sorted(map(tuple, rig.rows(table)), key=str) for table in tables}


def test_token_of_another_instance_sees_no_topic(ask: Ask) -> None:
    listed = {s: ask("GET", "/v1/topics", scope=s).json()["items"] for s in ("read@a", "read@b", "read")}
    named = ask("GET", "/v1/topics?instance=a", scope="read@b")
    texts = {
        ask("GET", f"/v1/topics/{name}", scope="operate@b").text.replace(name, "T") for name in ("orders", "unknown")
    }

    names = {scope: {topic["name"] for topic in topics} for scope, topics in listed.items()}
    assert [scope for scope, topics in names.items() if "orders" in topics] == ["read@a", "read"]
    assert named.status_code == 403
    assert len(texts) == 1
    assert ask("GET", "/v1/topics/orders", scope="read@a").json()["instance"] == "a"
    assert ask("GET", "/v1/topics/unknown", scope="read").status_code == 404


def test_token_of_another_instance_changes_no_topic(api: Api, rig: Rig, ask: Ask) -> None:
    wal = api.app.state.service.stores.wal
    pin = wal.replays.open(OpenRegionOrder(topic="orders", region="r1", epoch=1, flushed=(3,), node="n1")).id
    wal.maps.put(MapOrder(instance="b", topic="own", generation=1))
    before = rows(rig)

    answers = [
        ask(method, path, body, scope=scope)
        for method, path, body, scope in (
            ("PUT", "/v1/topics/orders/regions", MAP, "owner@b"),
            ("PUT", "/v1/topics/orders/regions?instance=a", MAP, "owner@b"),
            ("POST", "/v1/topics/orders/purge", None, "operate@b"),
            ("POST", "/v1/topics/orders/replays", {"region": "r1", "epoch": 2, "flushed": [3]}, "node:n1@b"),
            ("PATCH", f"/v1/topics/orders/replays/{pin}", None, "node:n1@b"),
            ("DELETE", f"/v1/topics/orders/replays/{pin}", None, "operate@b"),
            ("PATCH", f"/v1/topics/own/replays/{pin}", None, "node:n1@b"),  # by the name of its own topic
            ("DELETE", f"/v1/topics/own/replays/{pin}", None, "node:n1@b"),
        )
    ]
    heartbeat = ask("POST", "/v1/nodes/n1/heartbeat", {"reports": REPORTS["reports"]}, scope="node:n1@b")

    assert [answer.status_code for answer in answers] == [403] * len(answers)
    [purge] = [call for call in CallStore(rig.db).last(len(answers)) if call.action == "wal purge"]
    assert (purge.instance, purge.subject) == ("a", "orders")
    assert heartbeat.json() == {"taken": 0, "waiting": 0, "ignored": 1}
    assert rows(rig) == before


def test_first_map_gives_a_topic_to_its_instance(api: Api, ask: Ask) -> None:
    mapped = ask("PUT", "/v1/topics/new/regions", MAP, scope="owner@b")
    second = ask("PUT", "/v1/topics/new/regions", MAP | {"generation": 10}, scope="owner@a")
    unnamed = ask("PUT", "/v1/topics/newer/regions", MAP, scope="owner@*")
    named = ask("PUT", "/v1/topics/newer/regions?instance=a", MAP, scope="owner@*")
    nowhere = ask("PUT", "/v1/topics/newest/regions?instance=c", MAP, scope="owner@*")

    assert (mapped.json()["instance"], named.json()["instance"]) == ("b", "a")
    assert (second.status_code, second.json()["code"]) == (403, "TOPIC_OF_ANOTHER_INSTANCE")
    assert (unnamed.status_code, nowhere.status_code) == (422, 404)
    names = {topic.name for topic in api.app.state.service.stores.wal.store.topics()}
    assert (names >= {"new", "newer"}, "newest" in names) == (True, False)


def test_node_of_the_same_name_keeps_its_address(api: Api, rig: Rig, ask: Ask) -> None:
    wal = api.app.state.service.stores.wal
    wal.floors._settings = Live.of(wal.floors._settings().model_copy(update={"trigger_flush_entries": 10}))
    rig.update("wal_topic", log_end=100)

    accepted = ask("POST", "/v1/nodes/n1/heartbeat", REPORTS, scope="node:n1@b")
    unnamed = ask("POST", "/v1/nodes/n1/heartbeat", REPORTS, scope="node:n1@*")

    assert (accepted.status_code, unnamed.status_code) == (200, 422)
    assert [(r.node, r.url) for r in wal.floors.regions_to_flush(["orders"])] == [("n1", "http://127.0.0.1:1")]


def test_only_the_owner_learns_the_known_generation(rig: Rig, ask: Ask) -> None:
    before = rows(rig)
    path = "/v1/topics/{}/regions?instance=a"
    high, old = (ask("PUT", path.format("orders"), MAP | {"generation": g}, scope="owner@a") for g in (2**62, 0))
    nodes = {ask("PUT", path.format(t), MAP | {"generation": 2**62}, scope="node:n1@a").text for t in ("orders", "x")}

    assert (high.status_code, high.json()["code"], old.status_code) == (409, "EPOCH_TOO_HIGH", 409)
    assert "generation 1," in high.json()["detail"]
    assert "older than 1," in old.json()["detail"]
    assert [text for text in nodes if "owner" in text and "generation" not in text] == list(nodes)
    assert len(nodes) == 1
    assert rows(rig) == before
