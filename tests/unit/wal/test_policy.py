"""A topic is purged up to the right entry, and the right regions flush first: cases W01 to W28."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.wal import policy
from sexton.wal.model import BlockReason, Facts, Pin, PurgeVerdict, Region, RegionState, Topic, WalSettings
from sexton.wal.policy import Stream
from sexton.wal.regions import keep_from as first_needed

NOW = 1_700_000_000_000
HOUR = 3_600_000
TERMS = WalSettings(trigger_flush_entries=1_000, trigger_flush_bytes=10**12)
ON = Topic(name="wal-0", kafka_id="k1", enabled=True, generation=1, mapped_at=NOW)


def region(name: str, keep_from: int | None, **more: object) -> Region:
    return Region(topic="wal-0", region=name, keep_from=keep_from, **more)  # type: ignore[arg-type]


def judged(
    topic: Topic = ON, *regions: Region, facts: Facts | None = None, pins: tuple[Pin, ...] = (), safe: int = 0
) -> PurgeVerdict:
    return policy.verdict(
        topic, facts or Facts(id="k1", end=1_000), policy.TopicReaders(regions, pins), NOW, TERMS, safe
    )


def test_w01_topic_without_a_map_or_a_region_is_blocked() -> None:
    unmapped = ON.model_copy(update={"mapped_at": None, "generation": None})

    for decided in (judged(unmapped), judged()):
        assert "no regions are known" in decided.blocked[0].said


def test_w01_empty_topic_is_purged_to_its_end_after_a_day() -> None:
    for hours, to in ((25, 1_000), (23, None)):
        assert judged(ON.model_copy(update={"emptied_at": NOW - hours * HOUR})).keep_from == to


def test_w01_stale_map_blocks_an_empty_topic() -> None:
    old = ON.model_copy(update={"emptied_at": NOW - 90 * HOUR, "mapped_at": NOW - 25 * HOUR})

    assert "map is 90,000 s old" in judged(old).blocked[0].said


def test_map_of_a_clock_ahead_or_from_before_a_reset_is_stale() -> None:
    """Else one ahead would count as new until that time comes, and a region that it lacks would lose its entries."""
    ahead = judged(ON.model_copy(update={"mapped_at": NOW + 25 * HOUR}), region("r1", 40))
    reset = judged(ON.model_copy(update={"mapped_at": None, "generation": 3}), region("r1", 40))

    for decided in (ahead, reset):
        assert [(b.why, decided.keep_from) for b in decided.blocked] == [(BlockReason.MAP_STALE, None)]
    assert "the clock was ahead" in ahead.blocked[0].said


def test_w02_region_without_a_report_blocks_and_is_named() -> None:
    decided = judged(ON, region("r1", 40), region("r2", None))

    assert decided.keep_from is None
    assert [b.said for b in decided.blocked] == ["no report, and no first entry in the map, of region r2"]
    for silent, text in ((5, "r0, r1, r2, r3, r4"), (7, "r0, r1, r2, r3, r4 and 2 more")):
        decided = judged(ON, *(region(f"r{n}", None) for n in range(silent)))
        assert decided.blocked[0].said.endswith(f"of region {text}")


def test_w03_floor_is_the_lowest_need_of_the_regions() -> None:
    lasts = (3, 10, 23, 50, 52, 82, 130)
    regions = [region(f"r{last}", first_needed([Stream(flushed=last)])) for last in lasts]

    decided = judged(ON, *regions)

    assert (decided.keep_from, decided.holders) == (4, ("region r3",))


def test_w04_need_begins_after_the_flushed_and_idle_marks() -> None:
    for flushed, idle, needs in ((100, 120, 121), (150, 120, 151), (None, None, None)):
        assert first_needed([Stream(flushed=flushed, idle=idle)]) == needs


def test_w05_smaller_of_two_streams_counts() -> None:
    for a, b, needs in (((100, 120), (90, 110), 111), ((200, 150), (180, 220), 201)):
        assert first_needed([Stream(flushed=f, idle=i) for f, i in (a, b)]) == needs
        assert first_needed([Stream(flushed=a[0], idle=a[1]), Stream()]) is None


def test_w06_floor_is_only_raised() -> None:
    for floor, to, is_raised in ((None, 10, True), (5, 6, True), (10, 10, False), (10, 9, False)):
        assert policy.rises(floor, to) is is_raised


def test_w09_nothing_is_deleted_from_an_empty_topic() -> None:
    empty = Facts(id="k1", start=0, end=0)

    assert judged(ON, region("r1", 0), facts=empty).keep_from == 0
    assert not policy.rises(None, 0)
    assert policy.delete_before(0, empty) is None


def test_w10_needed_but_deleted_entries_are_a_loss() -> None:
    decided = judged(ON, region("r1", 11), region("r2", 90), facts=Facts(id="k1", start=50, end=200))

    assert [(loss.region, str(loss)) for loss in decided.losses] == [("r1", "11..49")]
    assert decided.keep_from == 11


def test_w15_replay_retains_the_entries_it_reads() -> None:
    pin = Pin(id="p1", topic="wal-0", region="r1", start=30)

    decided = judged(ON, region("r1", 60), region("r2", 90), pins=(pin,))

    assert (decided.keep_from, decided.holders) == (30, ("replay p1 of region r1",))


def test_w19_only_regions_above_the_lag_threshold_flush() -> None:
    for lag, asked in ((999, 0), (1_000, 0), (1_001, 1)):
        assert len(policy.regions_to_flush(ON, 5_000, [region("r1", 5_000 - lag)], NOW, TERMS)) == asked


def test_w19_bytes_count_and_the_largest_lag_comes_first() -> None:
    heavy = ON.model_copy(update={"entry_bytes": 2**20})
    regions = [region("r1", 4_800), region("r2", 4_600), region("r3", 4_990), region("r4", None)]

    regions_to_flush = policy.regions_to_flush(heavy, 5_000, regions, NOW, WalSettings(trigger_flush_bytes=100 * 2**20))

    assert [(c.region, c.entries) for c in regions_to_flush] == [("r2", 400), ("r1", 200)]


def test_w21_recreated_or_truncated_topic_is_quarantined() -> None:
    floored = ON.model_copy(update={"floor": 50})
    recreated = judged(ON, region("r1", 40), facts=Facts(id="k2", end=1_000))
    cut = judged(ON, region("r1", 40), facts=Facts(id="k1", end=39), safe=40)
    below = judged(floored, region("r1", 30), facts=Facts(id="k1", end=45), safe=50)

    assert "another one now" in recreated.quarantine
    for decided in (cut, below):
        assert "lost its last entries" in decided.quarantine
    assert {recreated.keep_from, cut.keep_from, below.keep_from} == {None}
    judged_before = ON.model_copy(update={"quarantined": "cut"})
    assert judged(judged_before, region("r1", 40)) == PurgeVerdict(quarantine="cut")


def test_w21_report_after_the_read_quarantines_nothing() -> None:
    decided = judged(ON, region("r1", 1_200), facts=Facts(id="k1", end=1_000), safe=900)

    assert (decided.quarantine, decided.keep_from) == ("", 1_000)


def test_w23_dropped_region_blocks_until_its_drop_is_final() -> None:
    final = region("r1", 10, state=RegionState.DROPPED, releases_at=NOW)
    may_return = region("r1", 10, state=RegionState.DROPPED, releases_at=NOW + 1)

    assert judged(ON, final, region("r2", 90)).keep_from == 90
    assert judged(ON, may_return, region("r2", 90)).keep_from == 10


def test_w27_disabled_or_partitioned_topic_is_blocked() -> None:
    disabled = ON.model_copy(update={"enabled": False})
    decided = judged(disabled, region("r1", 4), facts=Facts(id="k1", end=9, partitions=2))

    assert decided.keep_from is None
    assert "sexton wal enable wal-0" in decided.blocked[0].said
    assert "2 partitions" in decided.blocked[1].said


def test_w28_moved_region_blocks_until_its_entries_are_flushed() -> None:
    left = region("r1", 40, state=RegionState.MOVED, until=70)
    unseen = region("r1", 90, state=RegionState.MOVED)

    assert judged(ON, left, region("r2", 90)).keep_from == 40
    assert judged(ON, unseen, region("r2", 95)).keep_from == 90
    assert judged(ON, left.model_copy(update={"keep_from": 70}), region("r2", 90)).keep_from == 90


IDS = st.integers(0, 60)


@given(
    st.lists(st.tuples(IDS | st.none(), st.sampled_from(RegionState), IDS), max_size=6),
    st.lists(IDS, max_size=3),
    IDS,
    IDS,
    IDS | st.none(),
)
def test_no_purge_passes_a_need_or_the_end(
    rows: list[tuple[int | None, RegionState, int]], pins: list[int], start: int, more: int, floor: int | None
) -> None:
    regions = [region(f"r{n}", k, state=s, until=u) for n, (k, s, u) in enumerate(rows)]
    facts, topic = Facts(id="k1", start=start, end=start + more), ON.model_copy(update={"floor": floor})
    pinned = tuple(Pin(id=f"p{n}", topic="wal-0", region="r0", start=at) for n, at in enumerate(pins))
    holding = [r for r in regions if policy.holds(r, NOW)]

    to = policy.verdict(topic, facts, policy.TopicReaders(regions, pinned), NOW, TERMS, 0).keep_from

    if to is None:
        assert not holding or any(r.keep_from is None for r in holding)
    else:
        assert all(r.keep_from is not None and to <= r.keep_from for r in holding)
        assert all(to <= at for at in pins)
        assert to <= facts.end
        offset = policy.delete_before(to, facts)
        assert offset is None or 0 < offset < to


def test_nothing_above_the_end_of_the_log_is_deleted() -> None:
    facts = Facts(id="k1", start=50, end=200)

    assert policy.delete_before(200 + policy.SLACK, facts) == 200
    assert policy.delete_before(201 + policy.SLACK, facts) is None
