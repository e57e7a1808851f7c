"""The ranges of a replica determine its path, gaps and crossings: C01 to C03, and brute force."""

from collections.abc import Collection, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import BadInput
from sexton.replication.replicas.version_graph import (
    MAX_RANGES,
    MAX_VERSION,
    Graph,
    Range,
    capture,
    continuous,
    judged,
    missing,
    overlaps,
)

ALIGNED_NOT_AT_7 = [(0, 4), (5, 5), (6, 9)]
WITH_A_HOLE = [(0, 4), (5, 5), (8, 9)]
CROSSED = [(0, 5), (0, 3), (4, 8)]


def test_c01_the_path_to_the_last_version_is_found() -> None:
    assert capture(ALIGNED_NOT_AT_7, 9) == [(0, 4), (5, 5), (6, 9)]


def test_c01_version_inside_a_range_is_present_but_not_aligned() -> None:
    assert capture(ALIGNED_NOT_AT_7, 7) is None
    assert missing(ALIGNED_NOT_AT_7, 7) == []


def test_c02_hole_ends_the_continuous_versions_and_is_named() -> None:
    assert continuous(WITH_A_HOLE) == 5
    assert (missing(WITH_A_HOLE, 9), missing(WITH_A_HOLE, 6)) == ([(6, 7)], [(6, 6)])
    assert judged(WITH_A_HOLE) == Graph(continuous=5, highest=9, crossing=False)


def test_c03_path_is_found_if_the_longest_range_is_a_dead_end() -> None:
    assert capture(CROSSED, 8) == [(0, 3), (4, 8)]
    assert capture(CROSSED, 5) == [(0, 5)]
    assert continuous(CROSSED) == 8


def test_c03_crossing_is_reported_and_compaction_causes_none() -> None:
    assert overlaps(CROSSED) == [((0, 5), (4, 8))]
    assert judged(CROSSED) == Graph(continuous=8, highest=8, crossing=True)
    assert overlaps([(0, 3), (4, 5), (0, 5), (0, 5), (6, 6)]) == []


def test_shortest_path_is_returned_in_any_order_of_ranges() -> None:
    ranges = [(n, n) for n in range(9)] + [(0, 3), (4, 8), (0, 5), (6, 8)]

    assert capture(ranges, 8) == capture(ranges[::-1], 8) == [(0, 3), (4, 8)]


def test_overlapping_ranges_are_not_aligned() -> None:
    assert capture([(0, 5), (4, 8)], 8) is None
    assert continuous([(0, 5), (4, 8)]) == 5


def test_without_ranges_everything_is_missing() -> None:
    assert judged([]) == Graph(continuous=-1, highest=-1, crossing=False)
    assert (capture([], 3), missing([], 3), continuous([])) == (None, [(0, 3)], -1)


def test_ranges_that_begin_above_zero_have_no_path() -> None:
    assert judged([(2, 4)]) == Graph(continuous=-1, highest=4, crossing=False)


def test_replica_with_too_many_ranges_is_refused() -> None:
    # from each version one or two ahead: more paths than can be tried one by one
    ranges = [(n, n) for n in range(MAX_RANGES // 2)] + [(n, n + 1) for n in range(MAX_RANGES // 2)]

    assert judged(ranges).continuous == MAX_RANGES // 2
    path = capture(ranges, MAX_RANGES // 2)
    assert path is not None
    assert len(path) == MAX_RANGES // 4 + 1
    with pytest.raises(BadInput, match="at most 100,000"):
        judged([*ranges, (0, MAX_VERSION)])


def test_longest_range_costs_no_more_than_another() -> None:
    assert judged([(0, MAX_VERSION)]).continuous == MAX_VERSION
    assert missing([(0, 0)], MAX_VERSION) == [(1, MAX_VERSION)]


@pytest.mark.parametrize("impossible", [(-1, 4), (5, 4), (0, MAX_VERSION + 1)])
@pytest.mark.parametrize("asked", [judged, continuous, overlaps, lambda r: capture(r, 1), lambda r: missing(r, 1)])
def test_impossible_ranges_are_refused(impossible: Range, asked: object) -> None:
    assert callable(asked)
    with pytest.raises(BadInput, match=rf"\[{impossible[0]}, {impossible[1]}\] is not a range of versions"):
        asked([(0, 0), impossible])


@pytest.mark.parametrize("spec", [-1, MAX_VERSION + 1])
def test_impossible_versions_are_refused(spec: int) -> None:
    for function in (capture, missing):
        with pytest.raises(BadInput, match=f"{spec} is not a version"):
            function([(0, 0)], spec)


RANGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda r: (r[0], r[0] + r[1])) | st.just((0, 3)), max_size=10
)
SPECS = st.integers(0, 18)


def paths(ranges: Collection[Range], at: int = 0) -> Iterator[list[Range]]:
    """Yield every path there is, tried one by one."""
    yield []
    for start, end in set(ranges):
        if start == at:
            yield from ([(start, end), *rest] for rest in paths(ranges, end + 1))


@given(RANGES, SPECS)
def test_search_agrees_with_brute_force(ranges: list[Range], spec: int) -> None:
    every = [p for p in paths(ranges) if p and p[-1][1] == spec]

    path = capture(ranges, spec)

    if path is None:
        assert not every
    else:
        assert path in every
        assert len(path) == min(map(len, every))
        best = [p for p in every if len(p) == len(path)]
        assert path == min(best, key=lambda p: [start for start, _ in reversed(p)])


@given(RANGES)
def test_continuous_versions_agree_with_brute_force(ranges: list[Range]) -> None:
    assert continuous(ranges) == max((p[-1][1] for p in paths(ranges) if p), default=-1)


@given(RANGES, SPECS)
def test_gaps_are_the_versions_that_no_range_covers(ranges: list[Range], spec: int) -> None:
    covered = {v for start, end in ranges for v in range(start, end + 1)}

    gaps = missing(ranges, spec)

    assert [v for start, end in gaps for v in range(start, end + 1)] == sorted(set(range(spec + 1)) - covered)
    assert all(end + 1 < start for (_, end), (start, _) in pairwise(gaps))


@given(RANGES)
def test_crossing_ranges_are_returned_in_pairs(ranges: list[Range]) -> None:
    crossing = {(a, b) for a in ranges for b in ranges if a[0] < b[0] <= a[1] < b[1]}

    pairs = overlaps(ranges)

    assert set(pairs) <= crossing
    assert [b for _, b in pairs] == sorted({b for _, b in crossing}, key=lambda r: (r[0], -r[1]))
    assert all(a[1] == min(c[1] for c, d in crossing if d == b) for a, b in pairs)


@given(RANGES)
def test_judgement_agrees_with_the_single_functions(ranges: list[Range]) -> None:
    graph = judged(ranges)

    assert graph.continuous == continuous(ranges)
    assert graph.highest == max((end for _, end in ranges), default=-1)
    assert graph.crossing == bool(overlaps(ranges))
    assert graph.continuous <= graph.highest


@given(RANGES)
def test_order_and_repetition_of_ranges_change_nothing(ranges: list[Range]) -> None:
    assert judged(ranges) == judged(ranges[::-1] + ranges)
    assert overlaps(ranges) == overlaps(ranges[::-1] + ranges)
