"""A replay over the API returns every entry or raises an error."""

from collections.abc import Iterator
from pathlib import Path

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
    TopicEntry,
    kafka,
)
from sexton.client.replaying import Replaying
from sexton.kernel.errors import BadInput
from sexton.operators.call_log.store import CallStore
from sexton.wal.model import Facts, RegionState
from sexton.wal.port import OldEpoch, OldMap, RegionOfAnotherNode, ReplayRefused
from tests.integration.wal.conftest import KAFKA, ON_BOTH_LOGS
from tests.integration.wal.logs import EmbeddedPlace, EntryGone, KafkaPlace, LogPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.clock import Clock
from tests.support.eventually import eventually
from tests.support.rig import Rig


class OfEmbedded:
    """Reads the embedded log for a replay."""

    def __init__(self, place: EmbeddedPlace, topic: str) -> None:
        self._place, self._topic = place, topic

    def facts(self) -> Facts:
        answer = self._place.log.facts([self._topic])[self._topic]
        assert isinstance(answer, Facts)
        return answer

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        while start < end:
            try:
                page = self._place.read(self._topic, start)
            except EntryGone as e:
                raise ReplayLost("out of range") from e
            for id_ in page:
                if id_ < end:
                    yield TopicEntry(id_, None, b"entry")
            start = page[-1] + 1

    def close(self) -> None:
        """Nothing is open."""


class NoSource:
    """Reads nothing: for a replay that is refused."""

    def facts(self) -> Facts:
        raise AssertionError("read")

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        raise AssertionError("read")

    def close(self) -> None:
        """Nothing is open."""


class Served:
    """The API over one database, with clients of a node and of the owner."""

    def __init__(self, api: Api, place: LogPlace, topics: TopicStores) -> None:
        self.api, self.place, self.topics = api, place, topics
        self.node = Sexton(api.url, api.token("node:n1@shop"), patience_seconds=2)
        self.owner = Sexton(api.url, api.token("operate@shop"), patience_seconds=2)

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
        options = {"kafka": self.place.settings} if isinstance(self.place, KafkaPlace) else {}
        if isinstance(self.place, EmbeddedPlace):
            options = {"source": OfEmbedded(self.place, topic)}  # type: ignore[dict-item]
        return self.node.replay(topic, "r1", epoch=epoch, flushed=[flushed], **options)  # type: ignore[arg-type]


@pytest.fixture
def served(tmp_path: Path, place: LogPlace) -> Iterator[Served]:
    rig = Rig(new_database()).instance()
    with Api(rig, wal={"replay_pin_ttl_seconds": 10}) as api:
        served_api = Served(api, place, TopicStores(rig.db, place))
        yield served_api
        served_api.node.close()
        served_api.owner.close()
    rig.db.close()


@ON_BOTH_LOGS
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


@ON_BOTH_LOGS
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


@ON_BOTH_LOGS
def test_entries_deleted_during_a_replay_raise_an_error(served: Served) -> None:
    topic = served.topic(2_000)

    with pytest.raises(ReplayLost), served.replay(topic) as replay:  # noqa: PT012
        served.place.log.delete_before({topic: 1_999})
        assert [e.id for e in replay] == list(range(2_000))


@ON_BOTH_LOGS
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
    with served.topics.db.read() as c:
        assert c.execute(served.topics.db.t.wal_pin.select()).all() == []


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


@ON_BOTH_LOGS
@pytest.mark.slow
def test_replay_renews_its_pin_while_it_reads(served: Served) -> None:
    topic = served.topic(3)
    served.flushed(topic, "r2", 2)

    with served.replay(topic) as replay:
        until = replay.pin.expires_at
        pins = served.topics.replays
        eventually("the pin is renewed", lambda: (pin := pins.find(replay.pin.id)) is None or pin.expires_at > until)
        assert pins.find(replay.pin.id) is not None
        assert [e.id for e in replay] == [0, 1, 2]


@ON_BOTH_LOGS
@pytest.mark.slow
def test_released_replay_is_lost_before_its_next_entry(served: Served) -> None:
    topic = served.topic(2_000)

    with pytest.raises(ReplayLost, match="has ended"), served.replay(topic) as replay:  # noqa: PT012
        served.topics.replays.release(replay.pin.id)
        for _ in iter(replay):
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


def test_node_token_is_for_its_own_node_only(served: Served) -> None:
    topic = served.topic(20)
    other = Sexton(served.api.url, served.api.token("node:n2@shop"), patience_seconds=2)

    with served.replay(topic) as replay:
        for ask in (
            lambda: other.heartbeat("n1", Heartbeat()),
            lambda: other.map_regions(topic, RegionMap(generation=9)),
            lambda: other.purge(topic),
        ):
            with pytest.raises(RequestRefused, match="token of scope"):
                ask()
        answer = httpx.delete(
            f"{served.api.url}/v1/topics/{topic}/replays/{replay.pin.id}",
            headers={"Authorization": f"Bearer {served.api.token('node:n2@shop')}"},
        )
        list(replay)
    other.close()

    assert answer.status_code == 403


def test_another_nodes_token_moves_nothing_of_a_region(served: Served) -> None:
    topic = served.topic(20)
    served.flushed(topic, "r1", 4)
    before = served.topics.store.regions(topic)
    report = LeaderReport(topic=topic, region="r1", epoch=0, streams=(Stream(flushed=19),))
    with Sexton(served.api.url, served.api.token("node:n2@shop"), patience_seconds=2) as other:
        with pytest.raises(RegionOfAnotherNode, match="is node n1's, not n2's"):
            other.heartbeat("n2", Heartbeat(reports=(report,)))
        for claimed, refusal in (("", RegionOfAnotherNode), ("n2", RegionOfAnotherNode), ("n1", RequestRefused)):
            replay = other.replay(topic, "r1", epoch=1, flushed=[19], node=claimed, source=NoSource())
            with pytest.raises(refusal), replay:
                raise AssertionError("entered")
    nodeless = served.owner.replay(topic, "r1", epoch=1, flushed=[4], source=NoSource())
    with pytest.raises(RequestRefused, match="name the node"), nodeless:
        raise AssertionError("entered")

    assert served.topics.store.regions(topic) == before


def test_invalid_request_is_refused_as_a_whole(served: Served) -> None:
    topic = served.topic(20)
    head = {"Authorization": f"Bearer {served.api.token('operate@shop')}"}
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


def test_purge_without_temporal_is_refused_and_logged(served: Served) -> None:
    topic = served.topic(20)

    with pytest.raises(RequestRefused) as refused:
        served.owner.purge(topic)

    assert (refused.value.status, refused.value.code) == (503, "TEMPORAL_AWAY")
    (call,) = [c for c in CallStore(served.topics.db).last(10) if c.action == "wal purge" and c.source == "127.0.0.1"]
    assert (call.subject, call.outcome) == (topic, "TEMPORAL_AWAY")


def test_replay_needs_bootstrap_servers(served: Served) -> None:
    with pytest.raises(BadInput, match=r"bootstrap\.servers"):
        served.node.replay("wal-x", "r1", epoch=1)


@ON_BOTH_LOGS
def test_topic_recreated_during_a_replay_is_refused(served: Served) -> None:
    topic = served.topic(50)

    with pytest.raises(ReplayLost), served.replay(topic) as replay:  # noqa: PT012
        served.place.recreate(topic)
        served.place.append(topic, 60)  # entries of others; r1's 0..49 are gone
        assert [e.id for e in replay] == list(range(50))


@pytest.mark.parametrize("place", [KAFKA], indirect=True)
def test_slow_reader_is_no_timeout_of_kafka(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(kafka, "time", clock)
    monkeypatch.setattr(kafka, "POLL_MESSAGES", 1)
    topic = served.topic(3)
    with served.replay(topic) as replay:
        for entry in replay:
            if entry.id == 0:
                clock.sleep(kafka.SILENCE_SECONDS + 1)  # the region flushes to make room
