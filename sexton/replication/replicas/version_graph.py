"""Compute which versions a replica can read from its rowsets' ranges: ``[start, end]``, both included, in any order.

A version can be read if a path of ranges leads to it: the first range starts at 0, each next one right after the end of
the one before. Two ranges may cover the same versions, because compaction leaves the ranges that it replaced; ranges
that cross are corrupt. Pure. Every function takes O(n log n), and raises ``BadInput`` for impossible ranges.
"""

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from sexton.kernel.errors import BadInput

Range = tuple[int, int]
MAX_VERSION = 1 << 62
MAX_RANGES = 100_000
NO_VERSION = -1


class Graph(NamedTuple):
    """The readable versions of a replica."""

    continuous: int
    """The highest version that a path leads to; -1 if there is none."""
    highest: int
    """The highest version that any range covers; -1 if there are no ranges."""
    crossing: bool
    """Whether two ranges overlap and neither contains the other."""


def capture(ranges: Collection[Range], spec: int) -> list[Range] | None:
    """Return the path that ends with exactly ``spec``, or None.

    Of several paths it is one with the fewest ranges, and of those the one with the longest last range (and so on
    backwards).
    """
    _check_version(spec)
    last: dict[int, tuple[int, int]] = {0: (0, 0)}
    """The version after a path → how many ranges the path has, and where the last of them starts."""
    for start, end in _ordered(ranges):
        # ranges are ordered by start, so every path to this start is known already
        if start in last:
            length = last[start][0] + 1
            if end + 1 not in last or length < last[end + 1][0]:
                last[end + 1] = (length, start)
    if spec + 1 not in last:
        return None
    path, after = [], spec + 1
    while after:
        start = last[after][1]
        path.append((start, after - 1))
        after = start
    return path[::-1]


def continuous(ranges: Collection[Range]) -> int:
    """Return the highest version that a path leads to, -1 if there is none."""
    return _continuous(_ordered(ranges))


def missing(ranges: Collection[Range], spec: int) -> list[Range]:
    """Return the versions up to ``spec`` that no range covers, as gaps from the first to the last.

    If there are no gaps and ``capture`` finds no path, the ranges are not aligned.
    """
    _check_version(spec)
    gaps, covered = list[Range](), NO_VERSION
    for start, end in _ordered(ranges):
        if start > spec:
            break
        if start > covered + 1:
            gaps.append((covered + 1, start - 1))
        covered = max(covered, end)
    if covered < spec:
        gaps.append((covered + 1, spec))
    return gaps


def overlaps(ranges: Collection[Range]) -> list[tuple[Range, Range]]:
    """Return the pairs of ranges that cross: they overlap, and neither contains the other.

    A range that crosses several earlier ones is returned once, paired with the one of them that ends first.
    """
    return list(_crossings(_ordered(ranges)))


def judged(ranges: Collection[Range]) -> Graph:
    """Return the readable versions of a replica, in bounded size."""
    ordered = _ordered(ranges)
    return Graph(
        continuous=_continuous(ordered),
        highest=max((end for _, end in ordered), default=NO_VERSION),
        crossing=next(_crossings(ordered), None) is not None,
    )


def _continuous(ordered: Sequence[Range]) -> int:
    reached = {0}
    for start, end in ordered:
        if start in reached:
            reached.add(end + 1)
    return max(reached) - 1


def _crossings(ordered: Sequence[Range]) -> Iterator[tuple[Range, Range]]:
    open_: list[Range] = []
    """A heap of the ranges that a later one may cross, as (end, start)."""
    for start, end in ordered:
        while open_ and open_[0][0] < start:
            heappop(open_)
        # of equal starts the longest comes first, so a range that ends earlier has started earlier too
        if open_ and open_[0][0] < end:
            yield (open_[0][1], open_[0][0]), (start, end)
        heappush(open_, (end, start))


def _ordered(ranges: Collection[Range]) -> list[Range]:
    """Return each range once, ordered by start, of equal starts the longest first."""
    if len(ranges) > MAX_RANGES:
        raise BadInput(f"a replica has at most {MAX_RANGES:,} version ranges, not {len(ranges):,}; compact it")
    for start, end in ranges:
        if not 0 <= start <= end <= MAX_VERSION:
            raise BadInput(f"[{start}, {end}] is not a range of versions: 0 <= start <= end <= {MAX_VERSION}")
    return sorted({(start, end) for start, end in ranges}, key=lambda r: (r[0], -r[1]))


def _check_version(spec: int) -> None:
    if not 0 <= spec <= MAX_VERSION:
        raise BadInput(f"{spec} is not a version: use 0 to {MAX_VERSION}")
