"""A topic belongs to one instance: a token of another one neither sees nor changes it. Topic ``orders`` is of ``a``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from sexton.client import RequestRefused, Sexton
from sexton.kernel.live import Live
from sexton.operators.call_log.store import CallStore
from sexton.wal.model import Mode
from sexton.wal.orders import LeaderReport, MapOrder, OpenRegionOrder, RegionMapping, Stream
from sexton.wal.sql import maps
from tests.integration.interfaces.api.conftest import Ask
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig

MAP = {"generation": 9, "regions": [{"region": "r1", "first": 0, "node": "n1"}]}
REPORTS = {
    "url": "http://127.0.0.1:9",
    "reports": [{"topic": "orders", "region": "r1", "epoch": 1, "streams": [{"flushed": 7}]}],
}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(new_database()).instance("a").instance("b")
    yield rig
    rig.db.close()


@pytest.fixture
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
    tables = (rig.db.t.wal_topic, rig.db.t.wal_region, rig.db.t.wal_pin, rig.db.t.wal_node)
    with rig.db.read() as c:
        return {table.name: sorted(map(tuple, c.execute(select(table))), key=str) for table in tables}


def test_token_of_another_instance_sees_no_topic(ask: Ask) -> None:
    listed = {s: ask("GET", "/v1/topics", scope=s).json()["items"] for s in ("read@a", "read@b", "read")}
    named = ask("GET", "/v1/topics?instance=a", scope="read@b")
    texts = {
        ask("GET", f"/v1/topics/{name}", scope="operate@b").text.replace(name, "T") for name in ("orders", "unknown")
    }

    assert {scope: [t["name"] for t in topics] for scope, topics in listed.items()} == {
        "read@a": ["orders"],
        "read@b": [],
        "read": ["orders"],
    }
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
    topics = api.app.state.service.stores.wal.store.topics()
    assert [t.name for t in topics] == ["new", "newer", "orders"]


def test_node_of_the_same_name_keeps_its_address(api: Api, ask: Ask) -> None:
    wal = api.app.state.service.stores.wal
    wal.floors._settings = Live.of(wal.floors._settings().model_copy(update={"flush_entries": 10}))
    with wal._db.write() as c:
        c.execute(wal._db.t.wal_topic.update().values(log_end=100))

    accepted = ask("POST", "/v1/nodes/n1/heartbeat", REPORTS, scope="node:n1@b")
    unnamed = ask("POST", "/v1/nodes/n1/heartbeat", REPORTS, scope="node:n1@*")

    assert (accepted.status_code, unnamed.status_code) == (200, 422)
    assert [(r.node, r.url) for r in wal.floors.regions_to_flush(["orders"])] == [("n1", "http://127.0.0.1:1")]


def test_refused_purge_is_recorded_with_the_topics_instance(rig: Rig, ask: Ask) -> None:
    ask("POST", "/v1/topics/orders/purge", scope="operate@b")

    call = CallStore(rig.db).last(1)[0]
    assert (call.action, call.instance, call.subject) == ("wal purge", "a", "orders")


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


def test_map_beyond_the_bound_is_refused_with_a_way_out(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAX_TOPIC_REGIONS", 1)
    body = {"generation": 9, "regions": [{"region": "r1", "node": "n1"}, {"region": "r2"}]}

    refused = ask("PUT", "/v1/topics/orders/regions", body, scope="owner@a")

    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REGIONS")
    assert "name those that left in dropped" in refused.json()["detail"]
    assert ask("PUT", "/v1/topics/orders/regions", MAP, scope="owner@a").status_code == 200


def test_an_administrator_resets_and_assigns_a_topic(api: Api, rig: Rig) -> None:
    with rig.db.write() as c:
        c.execute(update(rig.db.t.wal_topic).values(log_start=0, log_end=9))  # as an observation would
    with Sexton(api.url, api.token("operate@*"), patience_seconds=0) as operator, pytest.raises(RequestRefused) as no:
        operator.reset_topic("orders", reason="restored")
    with Sexton(api.url, api.token("admin"), patience_seconds=0) as admin:
        standing = admin.reset_topic("orders", reason="restored", region="r1", to=5)
        given = admin.assign_topic("orders", "b", reason="the map had the wrong name")
        with pytest.raises(RequestRefused, match="region r9 is not mapped"):
            admin.reset_topic("orders", reason="restored", region="r9")
        with pytest.raises(RequestRefused, match="name it with --region"):
            admin.reset_topic("orders", reason="restored", to=5)
        with pytest.raises(RequestRefused, match="unknown topic nope"):
            admin.assign_topic("nope", "b", reason="x")

    assert no.value.status == 403
    assert [(line.region.region, line.region.keep_from) for line in standing.lines] == [("r1", 5)]
    assert given.instance == api.app.state.service.stores.wal.store.topic("orders").instance == "b"
    recorded = [(c.action, c.instance, c.subject, c.reason) for c in CallStore(rig.db).last(10) if c.outcome == "ok"]
    assert ("wal reset", "a", "orders r1", "restored") in recorded
    assert ("wal assign", "a", "orders to b", "the map had the wrong name") in recorded


def test_a_follower_that_never_returns_is_removed(api: Api) -> None:
    with Sexton(api.url, api.token("node:fe-3@a")) as node:
        node.journal(0, follower="fe-3", instance="a")
    with Sexton(api.url, api.token("operate@a"), patience_seconds=0) as operator:
        before = operator.followers("a").items
        operator.remove_follower("fe-3", instance="a")
        after = operator.followers("a").items
        with pytest.raises(RequestRefused, match="has no follower fe-3") as refused:
            operator.remove_follower("fe-3", instance="a")

    assert ([f.name for f in before], after, refused.value.status) == (["fe-3"], (), 404)
