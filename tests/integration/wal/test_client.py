"""A replay over the API returns every entry or raises an error."""

from collections.abc import Iterator

import httpx
import pytest

from sexton.client import (
    Heartbeat,
    LeaderReport,
    RegionDrop,
    RegionMap,
    RegionMapping,
    ReplayLost,
    RequestRefused,
    Sexton,
    Stream,
)
from sexton.client import kafka as kafka_reader
from sexton.client.replaying import Replaying
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.operators.call_log import CallStore
from sexton.wal.model import RegionState
from sexton.wal.port import OldEpoch, OldMap, RegionOfAnotherNode, ReplayRefused
from tests.integration.wal.logs import KafkaPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers.api import Api
from tests.servers.kafka import Kafka
from tests.servers.postgres import new_database
from tests.support.clock import Clock
from tests.support.eventually import eventually
from tests.support.rig import Rig


class Served:
    """The API over one database, topics of Kafka, and clients of two nodes and of the owner."""

    def __init__(self, api: Api, db: Database, place: KafkaPlace) -> None:
        self.api, self.db, self.place, self.topics = api, db, place, TopicStores(db, place)
        self.tokens = {scope: api.token(scope) for scope in ("node:n1@shop", "node:n2@shop", "operate@shop")}
        self.node, self.other, self.owner = (Sexton(api.url, t, patience_seconds=2) for t in self.tokens.values())

    def topic(self, entries: int) -> str:
        """Make a topic of which region r1 needs everything."""
        name = self.topics.topic()
        regions = tuple(RegionMapping(region=region, first=0, node="n1") for region in ("r1", "r2"))
        self.owner.map_regions(name, RegionMap(generation=1, regions=regions))
        self.place.append(name, entries)
        self.topics.purger.preview([name])
        return name

    def flushed(self, topic: str, region: str, last: int, epoch: int = 0) -> int:
        report = LeaderReport(topic=topic, region=region, epoch=epoch, streams=(Stream(flushed=last),))
        return self.node.heartbeat("n1", Heartbeat(url="http://127.0.0.1:9", reports=(report,))).taken

    def replay(self, topic: str, flushed: int | None = None, epoch: int = 1) -> Replaying:
        """Replay region r1 as its node does."""
        return self.node.replay(topic, "r1", epoch=epoch, flushed=[flushed], kafka=self.place.settings)


@pytest.fixture(scope="module")
def served(kafka: Kafka) -> Iterator[Served]:
    """The API for the tests of this file, each of which has topics of its own."""
    rig = Rig(new_database()).instance()
    with Api(rig, wal={"replay_pin_ttl_seconds": 10}) as running:
        api = Served(running, rig.db, KafkaPlace(kafka.address))
        yield api
        for client in (api.node, api.other, api.owner):
            client.close()
    rig.db.close()


@pytest.mark.slow
def test_replay_reads_every_entry_and_retains_them(served: Served) -> None:
    topic = served.topic(50)
    assert (served.flushed(topic, "r2", 49), served.flushed(topic, "r1", 9)) == (1, 1)

    with served.replay(topic, flushed=9) as replay:
        held = served.topics.purge(topic)
        ids = [entry.id for entry in replay]
        served.place.append(topic, 5)  # entries appended later do not belong to the replay

    assert (replay.pin.start, replay.end, ids) == (10, 50, list(range(10, 50)))
    assert (replay.pin.node, held.floor) == ("n1", 10)
    served.flushed(topic, "r1", 49, epoch=1)
    assert served.topics.purge(topic).floor == 50


def test_replay_left_early_is_lost_and_an_empty_one_is_not(served: Served) -> None:
    topic = served.topic(20)
    served.flushed(topic, "r2", 19)

    with served.replay(topic, flushed=19) as nothing:
        assert list(nothing) == []
    with (
        pytest.raises(ReplayLost, match="before all of it was read"),
        served.replay(topic, flushed=4, epoch=2) as early,
    ):
        next(iter(early))

    assert early.pin.start == 5
    assert served.topics.replays.find(early.pin.id) is None


def test_replay_refuses_a_purged_or_recreated_topic(served: Served) -> None:
    topic = served.topic(20)
    cut = served.topic(20)
    served.place.log.delete_before({cut: 3})
    served.place.recreate(topic)
    served.place.append(topic, 30)

    with pytest.raises(ReplayLost, match="was replaced"), served.replay(topic):
        raise AssertionError("entered")
    with pytest.raises(ReplayLost, match=r"entries 0\.\.2 .* are gone"), served.replay(cut):
        raise AssertionError("entered")
    pins = served.db.t.wal_pin
    with served.db.read() as c:
        assert c.execute(pins.select().where(pins.c.topic.in_([topic, cut]))).all() == []


def test_refused_opening_names_the_missing_entries(served: Served) -> None:
    topic = served.topic(50)
    for region in ("r1", "r2"):
        served.flushed(topic, region, 29)
    served.topics.purge(topic)

    with pytest.raises(ReplayRefused, match=r"10\.\.29"), served.replay(topic, flushed=9):
        raise AssertionError("entered")
    with served.replay(topic, flushed=29, epoch=3) as replay:
        list(replay)
    with pytest.raises(OldEpoch), served.replay(topic, flushed=29, epoch=2):
        raise AssertionError("entered")
    with (
        pytest.raises(RequestRefused, match="not for topic wal-none: no map of its instance") as unknown,
        served.replay("wal-none"),
    ):
        raise AssertionError("entered")
    assert (unknown.value.code, unknown.value.status) == ("FORBIDDEN", 403)


@pytest.mark.slow
def test_replay_renews_its_pin_and_is_lost_without_it(served: Served) -> None:
    topic = served.topic(2_000)
    pins = served.topics.replays

    with pytest.raises(ReplayLost, match="has ended"), served.replay(topic) as replay:  # noqa: PT012
        until = replay.pin.expires_at
        eventually("the pin is renewed", lambda: (pin := pins.find(replay.pin.id)) is None or pin.expires_at > until)
        assert pins.find(replay.pin.id) is not None
        entries = iter(replay)
        assert [next(entries).id for _ in range(3)] == [0, 1, 2]
        pins.release(replay.pin.id)
        for _ in entries:
            eventually("the next renewal fails", lambda: replay._lost)


def test_maps_and_heartbeats_over_http_reach_the_stores(served: Served) -> None:
    topic = served.topic(20)
    anew = RegionMap(generation=2, regions=(RegionMapping(region="r2"),), dropped=(RegionDrop(region="r1"),))

    mapped = served.owner.map_regions(topic, anew)
    taken = served.flushed(topic, "r2", 4), served.flushed(topic, "nobody", 4)
    with pytest.raises(OldMap):
        served.owner.map_regions(topic, RegionMap(generation=1))
    done = served.topics.purge(topic)

    assert (mapped.generation, taken) == (2, (1, 0))
    assert (done.floor, done.verdict.holders) == (5, ("region r2",))
    assert [its.state for its in served.topics.store.regions(topic)] == [RegionState.MAPPED]


def test_token_of_another_node_moves_nothing_of_a_region(served: Served) -> None:
    topic = served.topic(20)
    served.flushed(topic, "r1", 4)
    before = served.topics.store.regions(topic)
    report = LeaderReport(topic=topic, region="r1", epoch=0, streams=(Stream(flushed=19),))
    for request, refusal, reason in (
        (lambda: served.other.heartbeat("n1", Heartbeat()), RequestRefused, "token of scope"),
        (lambda: served.other.map_regions(topic, RegionMap(generation=9)), RequestRefused, "token of scope"),
        (lambda: served.other.purge(topic), RequestRefused, "token of scope"),
        (lambda: served.other.heartbeat("n2", Heartbeat(reports=(report,))), RegionOfAnotherNode, "is node n1's, not"),
    ):
        with pytest.raises(refusal, match=reason):
            request()
    for client, node, error in (
        (served.other, "", RegionOfAnotherNode),
        (served.other, "n2", RegionOfAnotherNode),
        (served.other, "n1", RequestRefused),
        (served.owner, "", RequestRefused),  # which must name the node
    ):
        replay = client.replay(topic, "r1", epoch=1, flushed=[19], node=node, kafka=served.place.settings)
        with pytest.raises(error), replay:
            raise AssertionError("entered")
    assert served.topics.store.regions(topic) == before

    with served.replay(topic, flushed=4) as replay:
        answer = httpx.delete(
            f"{served.api.url}/v1/topics/{topic}/replays/{replay.pin.id}",
            headers={"Authorization": f"Bearer {served.tokens['node:n2@shop']}"},
        )
        list(replay)
    assert answer.status_code == 403


def test_invalid_request_is_refused_as_a_whole(served: Served) -> None:
    topic = served.topic(20)
    head = {"Authorization": f"Bearer {served.tokens['operate@shop']}"}
    report = {"topic": topic, "region": "r1", "epoch": 0, "streams": [{"flushed": 5}]}
    bad = [
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": -1}),
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": 2, "regions": [{"region": "a"}, {"region": "a"}]}),
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": 2, "region": []}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [report, report | {"streams": []}]}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [report, report | {"epoch": -1}]}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [report], "url": "ftp://x"}),
        ("POST", f"/v1/topics/{topic}/replays", {"region": "r1", "epoch": 2**63}),
        ("POST", "/v1/topics/a%20b/replays", {"region": "r1", "epoch": 1}),
    ]
    answers = [httpx.request(m, served.api.url + path, json=body, headers=head) for m, path, body in bad]
    reports = [report | {"streams": [{"flushed": 2**64 - 1}]}, report | {"epoch": 2**70}, report | {"region": "r2"}]
    response = httpx.post(f"{served.api.url}/v1/nodes/n1/heartbeat", json={"reports": reports}, headers=head)

    assert [a.status_code for a in answers] == [422] * len(bad)
    assert response.json() == {"taken": 1, "waiting": 0, "ignored": 2}
    assert {its.region: its.keep_from for its in served.topics.store.regions(topic)} == {"r1": 0, "r2": 6}


def test_request_without_its_server_is_refused(served: Served) -> None:
    topic = served.topic(20)

    with pytest.raises(BadInput, match=r"bootstrap\.servers"):
        served.node.replay(topic, "r1", epoch=1)
    with pytest.raises(RequestRefused) as refused:
        served.owner.purge(topic)

    assert (refused.value.status, refused.value.code) == (503, "TEMPORAL_AWAY")
    (call,) = [c for c in CallStore(served.db).last(10) if c.subject == topic and c.action == "wal purge"]
    assert (call.source, call.outcome) == ("127.0.0.1", "TEMPORAL_AWAY")


def test_entries_that_vanish_during_a_replay_raise_an_error(served: Served) -> None:
    purged, recreated = served.topic(2_000), served.topic(50)

    with pytest.raises(ReplayLost), served.replay(purged) as replay:  # noqa: PT012
        served.place.log.delete_before({purged: 1_999})
        assert [e.id for e in replay] == list(range(2_000))
    with pytest.raises(ReplayLost), served.replay(recreated) as replay:  # noqa: PT012
        served.place.recreate(recreated)
        served.place.append(recreated, 60)  # entries of others; r1's 0..49 are gone
        assert [e.id for e in replay] == list(range(50))


def test_slow_reader_is_no_timeout_of_kafka(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(kafka_reader, "time", clock)
    monkeypatch.setattr(kafka_reader, "POLL_MESSAGES", 1)
    topic = served.topic(3)
    with served.replay(topic) as replay:
        for entry in replay:
            if entry.id == 0:
                clock.sleep(kafka_reader.SILENCE_SECONDS + 1)  # the region flushes to make room
