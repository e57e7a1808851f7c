"""A region that is opened begins at the right entry, or is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import SextonError
from sexton.wal.model import KeepFromSource, Region, RegionState, Topic
from sexton.wal.policy import OpenRegionOrder, Stream
from sexton.wal.port import OldEpoch, ReplayRefused, UnknownRegion
from sexton.wal.regions import Opening, decide_opening, keep_from, manifest_progress, missing_entries, replay_start

TOPIC = Topic(name="wal-0", kafka_id="k1", enabled=True, log_end=100)


def region(keep_from: int | None, **columns: Any) -> Region:
    return Region(topic="wal-0", region="r1", keep_from=keep_from, **columns)


def answer(stored: Region | None, topic: Topic, order: OpenRegionOrder) -> Opening | SextonError:
    """Return the opening, or its refusal."""
    try:
        return decide_opening(stored, topic, order)
    except SextonError as refusal:
        return refusal


def decide(stored: Region | None, *flushed: int | None, epoch: int = 1, topic: Topic = TOPIC) -> Opening | SextonError:
    order = OpenRegionOrder(topic="wal-0", region="r1", epoch=epoch, flushed=flushed, node="n1")
    return answer(stored, topic, order)


def opened(stored: Region, *flushed: int | None, epoch: int = 1, topic: Topic = TOPIC) -> Opening:
    opening = decide(stored, *flushed, epoch=epoch, topic=topic)
    assert isinstance(opening, Opening)
    return opening


def test_a_region_that_no_map_names_is_unknown() -> None:
    for stored in (None, region(10, state=RegionState.GONE)):
        assert isinstance(decide(stored, 10), UnknownRegion)


REFUSALS = [
    (region(11, state=RegionState.DROPPED), TOPIC, "is dropped; map it to topic wal-0 again first"),
    (region(11), TOPIC.model_copy(update={"quarantined": "cut"}), "topic wal-0 is quarantined: cut"),
    (region(None), TOPIC, "it has no manifest, and it has not reported"),
    (region(None, source=KeepFromSource.RESET), TOPIC, "after a reset its manifest proves nothing"),
    (region(11), TOPIC.model_copy(update={"floor": 20}), "needs entries 11..19 of topic wal-0"),
    (region(11), TOPIC.model_copy(update={"floor": 20}), "its manifest is older than its reports"),
    (region(11), TOPIC.model_copy(update={"log_start": 20}), "Sexton purged nothing"),
    (region(15, first=9), TOPIC.model_copy(update={"floor": 8, "log_start": 20}), "Sexton purged below 8"),
]


def test_a_refusal_gives_its_reason() -> None:
    for stored, topic, reason in REFUSALS:
        refusal = decide(stored, None, topic=topic)

        assert isinstance(refusal, ReplayRefused)
        assert reason in str(refusal)


def test_a_region_begins_at_its_report_or_a_lower_manifest() -> None:
    reported = opened(region(21, flushed=(11,), epoch=1), 10, epoch=2)
    less = opened(region(31, flushed=(21,), epoch=1), 10, epoch=2)

    assert (reported.start, less.start) == (21, 11)
    assert reported.columns == {"epoch": 2, "node": "n1", "pending_keep_from": None, "pending_flushed": None}
    need = {"keep_from": 11, "flushed": (11,), "source": KeepFromSource.OPENED}
    assert less.columns == reported.columns | need


def test_an_epoch_that_is_over_is_refused() -> None:
    over = decide(region(11, epoch=4, flushed=(11,)), 10, epoch=3)
    less = decide(region(31, flushed=(21,), epoch=2), 10, epoch=2)  # its manifest names less: a new one is needed

    assert isinstance(over, OldEpoch)
    assert isinstance(less, OldEpoch)
    assert "has a leader of epoch 4" in str(over)
    assert "names less than was reported in epoch 2" in str(less)


def test_a_start_above_the_known_end_waits_and_one_at_it_counts() -> None:
    at_end = opened(region(None), 99)
    assert (at_end.start, at_end.columns["keep_from"], at_end.columns["pending_keep_from"]) == (100, 100, None)

    opening = opened(region(None), 149)

    assert opening.start == 150
    assert "keep_from" not in opening.columns
    pending = {name: opening.columns[name] for name in ("pending_keep_from", "pending_flushed")}
    assert pending == {"pending_keep_from": 150, "pending_flushed": (150,)}


STARTS: list[tuple[Region, tuple[int | None, ...], int | None, int | None]] = [
    (region(7, source=KeepFromSource.RESET, flushed=(40,)), (3,), None, 7),
    (region(None, pending_keep_from=12), (None,), None, 0),
    (region(None, first=5), (2,), None, 5),
    (region(None, first=5), (2,), 4, 3),
    (region(None, first=5), (2,), 5, 5),  # mapped at the end as last seen
    (region(None), (None,), None, None),
    (region(31, flushed=(21,)), (20, 20), None, 21),  # another number of streams than was reported
    (region(31, flushed=(21,), pending_flushed=(25,), pending_keep_from=40), (22,), None, 23),
]


def test_a_replay_starts_after_what_its_manifest_proves() -> None:
    for stored, flushed, log_end, start in STARTS:
        assert replay_start(stored, flushed, log_end) == start, stored


IDS = st.integers(0, 40)
MANIFESTS = st.lists(IDS | st.none(), min_size=1, max_size=2).map(tuple)
REGIONS = st.builds(
    Region,
    topic=st.just("wal-0"),
    region=st.just("r1"),
    epoch=st.integers(0, 2),
    first=IDS,
    keep_from=IDS | st.none(),
    flushed=st.lists(IDS, max_size=2).map(tuple),
    pending_keep_from=IDS | st.none(),
    pending_flushed=st.lists(IDS, max_size=2).map(tuple) | st.none(),
    source=st.sampled_from(KeepFromSource),
    mapped_node=st.sampled_from(["", "", "n1"]),
    node=st.sampled_from(["", "", "n2"]),
    state=st.sampled_from(RegionState),
)
TOPICS = st.builds(
    Topic,
    name=st.just("wal-0"),
    floor=IDS | st.none(),
    log_start=IDS | st.none(),
    log_end=IDS | st.none(),
    quarantined=st.sampled_from(["", "", "cut"]),
)
ORDERS = st.builds(
    OpenRegionOrder,
    topic=st.just("wal-0"),
    region=st.just("r1"),
    epoch=st.integers(0, 3),
    flushed=MANIFESTS,
    node=st.sampled_from(["n1", "n2"]),
)


@given(REGIONS, TOPICS, ORDERS)
def test_open_region_lacks_no_entry_and_retains_its_reads(stored: Region, topic: Topic, order: OpenRegionOrder) -> None:
    decision = answer(stored, topic, order)

    if isinstance(decision, SextonError):
        return
    after = stored.model_copy(update=decision.columns)
    need = after.keep_from if after.pending_keep_from is None else after.pending_keep_from
    assert stored.state in (RegionState.MAPPED, RegionState.MOVED)
    assert not topic.quarantined
    assert stored.leader in ("", order.node)
    assert missing_entries(topic, "r1", decision.start) is None
    assert after.epoch == order.epoch >= stored.epoch
    assert need is not None
    assert need <= decision.start


@pytest.mark.slow
@given(REGIONS, TOPICS, ORDERS)
def test_region_begins_above_its_manifest_only_with_proof(stored: Region, topic: Topic, order: OpenRegionOrder) -> None:
    decision = answer(stored, topic, order)

    if isinstance(decision, SextonError) or stored.source is KeepFromSource.RESET:
        return
    progress = manifest_progress(order.flushed)
    first = stored.first if topic.log_end is None or stored.first <= topic.log_end else 0
    if decision.start > max(first, min(progress)):
        assert decision.start == stored.keep_from
        assert stored.flushed == () or all(a >= b for a, b in zip(progress, stored.flushed, strict=True))


@given(st.lists(st.tuples(IDS | st.none(), IDS | st.none()), min_size=1, max_size=2))
def test_an_unchanged_manifest_starts_where_it_was_reported(marks: list[tuple[int | None, int | None]]) -> None:
    flushed = [flushed for flushed, _ in marks]
    needed_from = keep_from([Stream(flushed=flushed, idle=idle) for flushed, idle in marks])
    progress = manifest_progress(flushed)

    start = replay_start(region(needed_from, flushed=progress), flushed)

    assert start == needed_from or needed_from is None or start == min(progress)


def test_w17_region_begins_after_its_idle_mark_or_is_refused() -> None:
    idle = region(21, flushed=(11,), source=KeepFromSource.IDLE)
    floored = TOPIC.model_copy(update={"floor": 15})

    assert replay_start(idle, [10]) == 21
    assert missing_entries(floored, "r1", 21) is None
    restored = region(15, flushed=(15,))
    at = replay_start(restored, [10])
    assert at == 11
    assert str(missing_entries(floored, "r1", at)) == "11..14"


def test_w17_restored_manifest_begins_where_it_ends() -> None:
    for flushed, start in ((10, 11), (None, 0), (40, 41)):
        assert replay_start(region(31, flushed=(21,)), [flushed]) == start
    assert replay_start(region(31, flushed=(21,), first=7), [None]) == 7
    assert replay_start(region(None), [None]) is None


def test_w17_restored_manifest_is_seen_in_each_stream() -> None:
    cases: list[tuple[list[tuple[int | None, int | None]], tuple[int | None, ...], int]] = [
        ([(100, 150), (200, None)], (100, 110), 101),
        ([(None, 180), (100, 120)], (None, 50), 0),
        ([(100, None), (50, 120)], (70, 190), 71),  # the other one has flushed more since
    ]
    for reported, restored, begins in cases:
        stored = region(
            keep_from([Stream(flushed=flushed, idle=idle) for flushed, idle in reported]),
            flushed=manifest_progress(flushed for flushed, _ in reported),
        )

        assert replay_start(stored, restored) == begins
        assert replay_start(stored, [flushed for flushed, _ in reported]) == stored.keep_from


def test_w18_region_that_begins_below_the_log_start_is_refused() -> None:
    topic = TOPIC.model_copy(update={"floor": 5, "log_start": 20})

    assert str(missing_entries(topic, "r1", 12)) == "12..19"
    assert missing_entries(topic, "r1", 20) is None
