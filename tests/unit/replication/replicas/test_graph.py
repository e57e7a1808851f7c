"""The ranges of a replica determine its readable versions and crossings: C01 to C03, and brute force."""

from collections.abc import Collection, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import BadInput
from sexton.replication.agent.model import MAX_VERSION
from sexton.replication.replicas.model import MAX_RANGES
from sexton.replication.replicas.policy import Graph, Range, judge_ranges

CROSSED = [(0, 5), (0, 3), (4, 8)]


def test_c01_the_path_to_the_last_version_is_found() -> None:
    assert judge_ranges([(0, 4), (5, 5), (6, 9)]) == Graph(continuous=9, highest=9, crossing=False)


def test_c02_hole_ends_the_continuous_versions() -> None:
    assert judge_ranges([(0, 4), (5, 5), (8, 9)]) == Graph(continuous=5, highest=9, crossing=False)


def test_c03_path_is_found_if_the_longest_range_is_a_dead_end() -> None:
    assert judge_ranges(CROSSED).continuous == 8


def test_c03_crossing_is_reported_and_compaction_causes_none() -> None:
    assert judge_ranges(CROSSED).crossing
    assert not judge_ranges([(0, 3), (4, 5), (0, 5), (0, 5), (6, 6)]).crossing


def test_without_an_aligned_path_versions_are_missing() -> None:
    assert judge_ranges([(0, 5), (4, 8)]).continuous == 5
    assert judge_ranges([]) == Graph(continuous=-1, highest=-1, crossing=False)
    assert judge_ranges([(2, 4)]) == Graph(continuous=-1, highest=4, crossing=False)
    assert judge_ranges([(0, MAX_VERSION)]).continuous == MAX_VERSION  # a long range costs no more than another


def test_replica_with_too_many_ranges_is_refused() -> None:
    # from each version one or two ahead: more paths than can be tried one by one
    ranges = [(n, n) for n in range(MAX_RANGES // 2)] + [(n, n + 1) for n in range(MAX_RANGES // 2)]

    assert judge_ranges(ranges).continuous == MAX_RANGES // 2
    with pytest.raises(BadInput, match="at most 100,000"):
        judge_ranges([*ranges, (0, MAX_VERSION)])


def test_impossible_ranges_are_refused() -> None:
    for begin, end in ((-1, 4), (5, 4), (0, MAX_VERSION + 1)):
        with pytest.raises(BadInput, match=rf"\[{begin}, {end}\] is not a range of versions"):
            judge_ranges([(0, 0), (begin, end)])


RANGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda r: (r[0], r[0] + r[1])) | st.just((0, 3)), max_size=10
)


def paths(ranges: Collection[Range], at: int = 0) -> Iterator[list[Range]]:
    """Yield every path there is, tried one by one."""
    yield []
    for start, end in set(ranges):
        if start == at:
            yield from ([(start, end), *rest] for rest in paths(ranges, end + 1))


@given(RANGES)
def test_judgement_agrees_with_brute_force(ranges: list[Range]) -> None:
    assert (
        judge_ranges(ranges)
        == judge_ranges(ranges[::-1] + ranges)
        == Graph(
            continuous=max((p[-1][1] for p in paths(ranges) if p), default=-1),
            highest=max((end for _, end in ranges), default=-1),
            crossing=any(a[0] < b[0] <= a[1] < b[1] for a in ranges for b in ranges),
        )
    )
