"""Which versions a replica can read, by the ranges its rowsets cover: ``[start, end]``, both included, in any order.

A version can be read when a path of ranges leads to it: the first starts at 0, each next one where the one before has
ended. Two ranges may cover the same versions, since compaction leaves what it replaced; that two cross is corrupt.
Pure. Everything here takes O(n log n), and refuses ranges that cannot be with ``BadInput``.
"""

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from sexton.kernel.errors import BadInput

Range = tuple[int, int]
HIGHEST = 1 << 62
MOST_RANGES = 100_000
MOST_GAPS = 16
NO_VERSION = -1


class Graph(NamedTuple):
    """What can be said of a replica's versions."""

    continuous: int
    """The highest version a path leads to; -1 where there is none."""
    highest: int
    """The highest version that any range covers; -1 of no ranges at all."""
    gaps: tuple[Range, ...]
    """The versions up to the highest that no range covers: the first 16 gaps."""
    gap_count: int
    """How many gaps there are."""
    crossing: bool
    """Whether two ranges overlap and neither contains the other."""
    aligned: bool
    """Whether all versions before the first gap can be read: if not, ranges are there, and they do not meet."""


def capture(ranges: Collection[Range], spec: int) -> list[Range] | None:
    """Return the path that ends with exactly ``spec``, or None.

    Of several it is one of the fewest ranges, and of those the one whose last range is longest (and so on backwards).
    """
    _check(spec)
    last: dict[int, tuple[int, int]] = {0: (0, 0)}
    """Where a path may go on → how many ranges it takes to get there, and where the last of them starts."""
    for start, end in _ordered(ranges):
        # starts only rise, so all that leads to this one has been seen
        if start in last:
            length = last[start][0] + 1
            if end + 1 not in last or length < last[end + 1][0]:
                last[end + 1] = (length, start)
    if spec + 1 not in last:
        return None
    path, at = [], spec + 1
    while at:
        start = last[at][1]
        path.append((start, at - 1))
        at = start
    return path[::-1]


def continuous(ranges: Collection[Range]) -> int:
    """Return the highest version that a path leads to, -1 where there is none."""
    return _continuous(_ordered(ranges))


def first_missing(ranges: Collection[Range]) -> int:
    """Return the first version that must still come: what lies before it can be read."""
    return continuous(ranges) + 1


def missing(ranges: Collection[Range], spec: int) -> list[Range]:
    """Return the versions up to ``spec`` that no range covers, as gaps from the first to the last.

    When there are none and ``capture`` finds no path all the same, the ranges are not aligned.
    """
    _check(spec)
    return list(_gaps(_ordered(ranges), spec))


def overlaps(ranges: Collection[Range]) -> list[tuple[Range, Range]]:
    """Return who crosses whom: ranges that overlap while neither contains the other.

    Each range that crosses some that start before it is named once, behind the one of them that ends first.
    """
    return list(_crossings(_ordered(ranges)))


def judged(ranges: Collection[Range]) -> Graph:
    """Return all that can be said of a replica's versions, in bounded size."""
    ordered = _ordered(ranges)
    reached, highest = _continuous(ordered), max((end for _, end in ordered), default=NO_VERSION)
    gaps = list(_gaps(ordered, highest))
    return Graph(
        continuous=reached,
        highest=highest,
        gaps=tuple(islice(gaps, MOST_GAPS)),
        gap_count=len(gaps),
        crossing=next(_crossings(ordered), None) is not None,
        aligned=reached + 1 == (gaps[0][0] if gaps else highest + 1),
    )


def _continuous(ordered: Sequence[Range]) -> int:
    reached = {0}
    for start, end in ordered:
        if start in reached:
            reached.add(end + 1)
    return max(reached) - 1


def _gaps(ordered: Sequence[Range], spec: int) -> Iterator[Range]:
    covered = NO_VERSION
    for start, end in ordered:
        if start > spec:
            break
        if start > covered + 1:
            yield covered + 1, start - 1
        covered = max(covered, end)
    if covered < spec:
        yield covered + 1, spec


def _crossings(ordered: Sequence[Range]) -> Iterator[tuple[Range, Range]]:
    open_: list[Range] = []
    """A heap of what may still be crossed, as (end, start)."""
    for start, end in ordered:
        while open_ and open_[0][0] < start:
            heappop(open_)
        # of one start the longest came first: what ends before this one has started before it, too
        if open_ and open_[0][0] < end:
            yield (open_[0][1], open_[0][0]), (start, end)
        heappush(open_, (end, start))


def _ordered(ranges: Collection[Range]) -> list[Range]:
    """Return each range once, by its start, of one start the longest first."""
    if len(ranges) > MOST_RANGES:
        raise BadInput(f"{len(ranges):,} ranges of versions: a replica has at most {MOST_RANGES:,}; compact it")
    for start, end in ranges:
        if not 0 <= start <= end <= HIGHEST:
            raise BadInput(f"[{start}, {end}] is no range of versions: 0 <= start <= end <= {HIGHEST}")
    return sorted({(start, end) for start, end in ranges}, key=lambda r: (r[0], -r[1]))


def _check(spec: int) -> None:
    if not 0 <= spec <= HIGHEST:
        raise BadInput(f"{spec} is no version: 0 to {HIGHEST}")
