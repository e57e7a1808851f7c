"""What nodes and owners do over the API: maps, heartbeats, and replays that give every entry or an error."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.client import ReplayLost, RequestRefused, Sexton, TopicEntry, kafka
from sexton.client.replaying import Replaying
from sexton.kernel.errors import BadInput
from sexton.operators.call_log.store import CallStore
from sexton.protocol.topics import DroppedRegion, Heartbeat, MappedRegion, RegionMap, RegionReport, StreamReport
from sexton.wal.model import Facts, RegionState
from sexton.wal.port import OldEpoch, OldMap, ReplayRefused
from tests.contract.wal.field import Field
from tests.contract.wal.logs import Embedded, Gone, Place, Real
from tests.rig import Rig
from tests.servers.api import Api


class OfEmbedded:
    """Reads the embedded log for a replay."""

    def __init__(self, place: Embedded, topic: str) -> None:
        self._place, self._topic = place, topic

    def facts(self) -> Facts:
        found = self._place.log.facts([self._topic])[self._topic]
        assert isinstance(found, Facts)
        return found

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        while start < end:
            try:
                some = self._place.read(self._topic, start)
            except Gone as e:
                raise ReplayLost("out of range") from e
            for id_ in some:
                if id_ < end:
                    yield TopicEntry(id_, None, b"entry")
            start = some[-1] + 1

    def close(self) -> None:
        """Nothing is open."""


class Served:
    """The API over one database, with clients of a node and of the owner."""

    def __init__(self, api: Api, place: Place, field: Field) -> None:
        self.api, self.place, self.field = api, place, field
        self.node = Sexton(api.url, api.token("node:n1"), patience_seconds=2)
        self.owner = Sexton(api.url, api.token("operate"), patience_seconds=2)

    def topic(self, entries: int) -> str:
        """Make a topic of which region r1 needs everything."""
        name = self.field.topic()
        regions = (MappedRegion(region="r1", first=0), MappedRegion(region="r2", first=0))
        self.owner.map_regions(name, RegionMap(generation=1, regions=regions))
        self.place.append(name, entries)
        self.field.purger.look([name])
        return name

    def flushed(self, topic: str, region: str, last: int, epoch: int = 0) -> int:
        report = RegionReport(topic=topic, region=region, epoch=epoch, streams=(StreamReport(flushed=last),))
        return self.node.heartbeat("n1", Heartbeat(url="http://127.0.0.1:9", reports=(report,))).taken

    def replay(self, topic: str, flushed: int | None = None, epoch: int = 1) -> Replaying:
        more = {"kafka": self.place.settings} if isinstance(self.place, Real) else {}
        if isinstance(self.place, Embedded):
            more = {"source": OfEmbedded(self.place, topic)}  # type: ignore[dict-item]
        return self.node.replay(topic, "r1", epoch=epoch, flushed=[flushed], **more)  # type: ignore[arg-type]


@pytest.fixture
def served(tmp_path: Path, place: Place) -> Iterator[Served]:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}")
    with Api(rig, wal={"replay_pin_ttl_seconds": 10}) as api:
        made = Served(api, place, Field(rig.db, place))
        yield made
        made.node.close()
        made.owner.close()
    rig.db.close()


def test_a_region_reads_every_entry_from_its_pinned_start_and_what_it_reads_stays(served: Served) -> None:
    topic = served.topic(50)
    assert (served.flushed(topic, "r2", 49), served.flushed(topic, "r1", 9)) == (1, 1)

    with served.replay(topic, flushed=9) as replay:
        held = served.field.purge(topic)
        ids = [entry.id for entry in replay]
        served.place.append(topic, 5)  # whoever else appends is none of the replay

    assert (replay.pin.start, replay.end, ids) == (10, 50, list(range(10, 50)))
    assert (replay.pin.node, held.floor) == ("n1", 10)
    served.flushed(topic, "r1", 49, epoch=1)
    assert served.field.purge(topic).floor == 50


def test_a_replay_of_nothing_is_none_and_one_that_is_left_early_is_lost(served: Served) -> None:
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
    assert served.field.replays.find(early.pin.id) is None


def test_what_went_while_it_was_read_is_an_error_and_never_a_gap(served: Served) -> None:
    topic = served.topic(2_000)

    with pytest.raises(ReplayLost), served.replay(topic) as replay:  # noqa: PT012
        served.place.log.delete_before({topic: 1_999})
        assert [e.id for e in replay] == list(range(2_000))


def test_a_topic_that_lacks_what_was_pinned_or_is_another_one_is_not_read(served: Served) -> None:
    topic = served.topic(20)
    cut = served.topic(20)
    served.place.log.delete_before({cut: 3})
    served.place.recreate(topic)
    served.place.append(topic, 30)

    with pytest.raises(ReplayLost, match="was replaced"), served.replay(topic):
        raise AssertionError("entered")
    with pytest.raises(ReplayLost, match=r"entries 0\.\.2 .* are gone"), served.replay(cut):
        raise AssertionError("entered")
    with served.field.db.read() as c:
        assert c.execute(served.field.db.t.wal_pin.select()).all() == []


def test_what_is_refused_on_opening_says_what_is_missing(served: Served) -> None:
    topic = served.topic(50)
    for region in ("r1", "r2"):
        served.flushed(topic, region, 29)
    served.field.purge(topic)

    with pytest.raises(ReplayRefused, match=r"10\.\.29"), served.replay(topic, flushed=9):
        raise AssertionError("entered")
    with served.replay(topic, flushed=29, epoch=3) as replay:
        list(replay)
    with pytest.raises(OldEpoch), served.replay(topic, flushed=29, epoch=2):
        raise AssertionError("entered")
    with pytest.raises(RequestRefused, match="unknown topic wal-none") as unknown, served.replay("wal-none"):
        raise AssertionError("entered")
    assert (unknown.value.code, unknown.value.status) == ("UNKNOWN_TOPIC", 404)


def test_a_replay_is_renewed_for_as_long_as_it_reads(served: Served) -> None:
    topic = served.topic(3)
    served.flushed(topic, "r2", 2)

    with served.replay(topic) as replay:
        until = replay.pin.expires_at
        over = time.monotonic() + 20
        while (found := served.field.replays.find(replay.pin.id)) is not None and found.expires_at == until:
            assert time.monotonic() < over
            time.sleep(0.05)
        assert [e.id for e in replay] == [0, 1, 2]

    assert found is not None


def test_a_replay_that_somebody_ended_is_lost_before_its_next_entry(served: Served) -> None:
    topic = served.topic(2_000)

    with pytest.raises(ReplayLost, match="has ended"), served.replay(topic) as replay:  # noqa: PT012
        served.field.replays.release(replay.pin.id)
        over = time.monotonic() + 20
        for _ in iter(replay):
            while replay._lost is None:  # the next renewal
                assert time.monotonic() < over
                time.sleep(0.05)


def test_maps_and_heartbeats_over_http_are_those_of_the_stores(served: Served) -> None:
    topic = served.topic(20)
    anew = RegionMap(generation=2, regions=(MappedRegion(region="r2"),), dropped=(DroppedRegion(region="r1"),))

    mapped = served.owner.map_regions(topic, anew)
    heard = served.flushed(topic, "r2", 4), served.flushed(topic, "nobody", 4)
    with pytest.raises(OldMap):
        served.owner.map_regions(topic, RegionMap(generation=1))
    done = served.field.purge(topic)

    assert (mapped.generation, heard) == (2, (1, 0))
    assert (done.floor, done.verdict.holders) == (5, ("region r2",))
    assert [its.state for its in served.field.store.regions(topic)] == [RegionState.MAPPED]


def test_a_node_speaks_for_itself_alone(served: Served) -> None:
    topic = served.topic(20)
    other = Sexton(served.api.url, served.api.token("node:n2"), patience_seconds=2)

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
            headers={"Authorization": f"Bearer {served.api.token('node:n2')}"},
        )
        list(replay)
    other.close()

    assert answer.status_code == 403


def test_what_does_not_fit_is_refused_and_nothing_of_it_taken(served: Served) -> None:
    topic = served.topic(20)
    head = {"Authorization": f"Bearer {served.api.token('operate')}"}
    fine = {"topic": topic, "region": "r1", "epoch": 0, "streams": [{"flushed": 5}]}
    bad = [
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": -1}),
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": 2, "regions": [{"region": "a"}, {"region": "a"}]}),
        ("PUT", f"/v1/topics/{topic}/regions", {"generation": 2, "region": []}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [fine, fine | {"streams": []}]}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [fine, fine | {"epoch": -1}]}),
        ("POST", "/v1/nodes/n1/heartbeat", {"reports": [fine], "url": "ftp://x"}),
        ("POST", f"/v1/topics/{topic}/replays", {"region": "r1", "epoch": 2**63}),
        ("POST", "/v1/topics/a%20b/replays", {"region": "r1", "epoch": 1}),
    ]
    answers = [httpx.request(m, served.api.url + path, json=body, headers=head) for m, path, body in bad]
    wild = [fine | {"streams": [{"flushed": 2**64 - 1}]}, fine | {"epoch": 2**70}, fine | {"region": "r2"}]
    heard = httpx.post(f"{served.api.url}/v1/nodes/n1/heartbeat", json={"reports": wild}, headers=head)

    assert [a.status_code for a in answers] == [422] * len(bad)
    assert heard.json() == {"taken": 1, "waiting": 0, "ignored": 2}
    assert {its.region: its.keep_from for its in served.field.store.regions(topic)} == {"r1": 0, "r2": 6}


def test_a_purge_by_hand_that_temporal_cannot_start_is_refused_and_written_down(served: Served) -> None:
    topic = served.topic(20)

    with pytest.raises(RequestRefused) as refused:
        served.owner.purge(topic)

    assert (refused.value.status, refused.value.code) == (503, "TEMPORAL_AWAY")
    (call,) = [c for c in CallStore(served.field.db).last(10) if c.action == "wal purge"]
    assert (call.subject, call.outcome) == (topic, "TEMPORAL_AWAY")


def test_a_replay_wants_to_know_where_to_read(served: Served) -> None:
    with pytest.raises(BadInput, match=r"bootstrap\.servers"):
        served.node.replay("wal-x", "r1", epoch=1)


def test_a_topic_made_anew_while_it_is_read_is_no_replay(served: Served) -> None:
    topic = served.topic(50)

    with pytest.raises(ReplayLost), served.replay(topic) as replay:  # noqa: PT012
        served.place.recreate(topic)
        served.place.append(topic, 60)  # of whoever; r1's 0..49 are gone
        assert [e.id for e in replay] == list(range(50))


def test_a_slow_apply_is_no_silence_of_kafka(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(kafka, "POLL_MESSAGES", 1)
    topic = served.topic(3)
    with served.replay(topic) as replay:
        for entry in replay:
            if entry.id == 0:
                time.sleep(1.5)  # the region flushes what it has, to have room
