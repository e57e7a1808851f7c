"""Decide what the report of a region's leader changes in the region's row. Pure."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from sexton.wal.model import MAX_EPOCH, MOST, KeepFromSource, Region
from sexton.wal.orders import LeaderReport, Stream

CLEAR_PENDING: dict[str, Any] = {"pending_keep_from": None, "pending_flushed": None}
"""The columns of a region whose pending report is dropped."""
NEW_LEADER = CLEAR_PENDING | {"node": ""}
"""The columns of a region that gets a new leader: the old one's last report no longer waits."""
FORGET_REPORTS = CLEAR_PENDING | {"keep_from": None, "until": None}
"""The columns of a region when no earlier report counts. What its manifest named, a later manifest must still name."""
MAX_PLAUSIBLE_ID = MOST // 32
"""No log is that long: a report of a higher entry is a fault of its node."""


class ReportedNeed(NamedTuple):
    """The entries that a region needs, by a report of its leader.

    ``keep_from``: the first entry needed; None: the report has a stream with neither mark, and only names the leader.
    """

    keep_from: int | None
    flushed: tuple[int, ...]
    source: KeepFromSource


def keep_from(streams: Iterable[Stream]) -> int | None:
    """Return the first entry that a region needs: the smallest of its streams; None if one has neither mark.

    The idle mark is the topic's last entry, read before the node verified that nothing is in memory or under way:
    later entries may be the region's (GreptimeDB RFC, "before purge").
    """
    last_ids = [max((m for m in (s.flushed, s.idle) if m is not None), default=None) for s in streams]
    known_ids = [last_id for last_id in last_ids if last_id is not None]
    return min(known_ids) + 1 if known_ids and len(known_ids) == len(last_ids) else None


def manifest_progress(flushed: Iterable[int | None]) -> tuple[int, ...]:
    """Return how much a manifest names: for each stream its last flushed entry + 1; a restored manifest names less."""
    return tuple(0 if last_id is None else last_id + 1 for last_id in flushed)


def furthest(flushed: Sequence[int], reported: Sequence[int]) -> tuple[int, ...]:
    """Return for each stream the higher of two positions; a stream that only one of them names counts, too.

    A leader's manifest only grows, so each stream is at its highest position, whatever the order of the reports.
    """
    return tuple([max(pair) for pair in zip_longest(flushed, reported, fillvalue=0)])


def is_plausible(report: LeaderReport) -> bool:
    """Return whether a report's numbers are possible: 2⁶⁴ - 1 from one node must not spoil the reports of others."""
    entry_ids = [entry_id for s in report.streams for entry_id in (s.flushed, s.idle) if entry_id is not None]
    return max(entry_ids, default=0) <= MAX_PLAUSIBLE_ID and report.epoch <= MAX_EPOCH


def reported_need(report: LeaderReport) -> ReportedNeed:
    """Return the entries that a region needs, by a report of its leader."""
    needed_from = keep_from(report.streams)
    flushed = [stream.flushed for stream in report.streams]
    last_ids = [last_id for last_id in flushed if last_id is not None]
    idle = len(last_ids) < len(flushed) or (needed_from or 0) - 1 > min(last_ids)
    progress = manifest_progress(flushed)
    source = KeepFromSource.IDLE if idle else KeepFromSource.FLUSHED
    return ReportedNeed(needed_from, progress, source)


def merge(region: Region, need: ReportedNeed, log_end: int | None) -> Region:
    """Return the region after a report of its leader, by the truth table below.

    ================================================================ ========================== ===============
    condition, the first that holds                                  keep_from, flushed, source pending_*
    ================================================================ ========================== ===============
    counted: need.keep_from <= the topic's known end                 raised, each on its own    cleared
    kept: no need.keep_from, or pending_keep_from <= need.keep_from  unchanged                  unchanged
    pending: otherwise                                               unchanged                  from the report
    ================================================================ ========================== ===============

    A need above the known end waits until a purge sees an end that high: a wrong number must not count, and the known
    end is older than the report. Of two pending reports the lower one stays, because a busy topic's end reaches it
    first. "Raised, each on its own" means: ``keep_from`` and each stream of ``flushed`` take the larger number, and
    ``source`` is replaced if ``keep_from`` rises.

    Args:
        region: as it is stored.
        need: the need that the report states.
        log_end: the topic's end as last seen; None: never seen.
    """
    if need.keep_from is not None and log_end is not None and need.keep_from <= log_end:
        stored = -1 if region.keep_from is None else region.keep_from
        counted = {
            "keep_from": max(stored, need.keep_from),
            "flushed": furthest(region.flushed, need.flushed),
            "source": need.source if need.keep_from > stored else region.source,
        }
        return region.model_copy(update=counted | CLEAR_PENDING)
    if need.keep_from is None or (region.pending_keep_from is not None and region.pending_keep_from <= need.keep_from):
        return region
    return region.model_copy(update={"pending_keep_from": need.keep_from, "pending_flushed": need.flushed})


def accept_pending(region: Region, log_end: int) -> dict[str, Any] | None:
    """Return the columns of a region whose pending report counts now; None if it has none, or it is above the end."""
    if region.pending_keep_from is None or region.pending_keep_from > log_end:
        return None
    stored = -1 if region.keep_from is None else region.keep_from
    source = region.source
    if region.pending_flushed is not None and region.pending_keep_from > stored:
        idle = region.pending_keep_from > min(region.pending_flushed, default=0)
        source = KeepFromSource.IDLE if idle else KeepFromSource.FLUSHED
    return {
        "keep_from": max(stored, region.pending_keep_from),
        "flushed": furthest(region.flushed, region.pending_flushed or ()),
        "source": source,
    }
