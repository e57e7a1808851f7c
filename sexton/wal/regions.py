"""Decide what maps, reports and openings change in the rows of regions, or why one is refused. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from sexton.kernel.errors import BadInput
from sexton.wal.model import (
    MAX_EPOCH,
    MAX_EPOCH_STEP,
    MOST,
    KeepFromSource,
    Missing,
    Region,
    RegionState,
    Topic,
)
from sexton.wal.policy import LeaderReport, MapOrder, OpenRegionOrder, RegionDrop, RegionMapping, RegionMove, Stream
from sexton.wal.port import EpochTooHigh, OldEpoch, ReplayRefused, UnknownRegion, of_another_node

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


def is_plausible(report: LeaderReport) -> bool:
    """Return whether a report's numbers are possible: 2⁶⁴ - 1 from one node must not spoil the reports of others."""
    entry_ids = [entry_id for s in report.streams for entry_id in (s.flushed, s.idle) if entry_id is not None]
    return max(entry_ids, default=0) <= MAX_PLAUSIBLE_ID and report.epoch <= MAX_EPOCH


def reported_need(report: LeaderReport) -> ReportedNeed:
    """Return the entries that a region needs, by a report of its leader."""
    return ReportedNeed(keep_from(report.streams), manifest_progress(stream.flushed for stream in report.streams))


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
        return region.model_copy(update=_counted(region, need.keep_from, need.flushed) | CLEAR_PENDING)
    if need.keep_from is None or (region.pending_keep_from is not None and region.pending_keep_from <= need.keep_from):
        return region
    return region.model_copy(update={"pending_keep_from": need.keep_from, "pending_flushed": need.flushed})


def accept_pending(region: Region, log_end: int) -> dict[str, Any] | None:
    """Return the columns of a region whose pending report counts now; None if it has none, or it is above the end."""
    if region.pending_keep_from is None or region.pending_keep_from > log_end:
        return None
    return _counted(region, region.pending_keep_from, region.pending_flushed)


def _counted(region: Region, needed_from: int, flushed: Sequence[int] | None) -> dict[str, Any]:
    """Return the columns of a region when a need counts; ``flushed``: None for the first entry that a map names."""
    stored, source = -1 if region.keep_from is None else region.keep_from, region.source
    if flushed is not None and needed_from > stored:
        source = KeepFromSource.IDLE if needed_from > min(flushed, default=0) else KeepFromSource.FLUSHED
    # A leader's manifest only grows, so each stream is at its highest position, whatever the order of the reports; one
    # that only one of them names counts, too.
    furthest = tuple([max(pair) for pair in zip_longest(region.flushed, flushed or (), fillvalue=0)])
    return {"keep_from": max(stored, needed_from), "flushed": furthest, "source": source}


def starts_over(topic: Topic) -> bool:
    """Return whether the next map is the first one after a reset, or after the database was restored."""
    return topic.generation is not None and not topic.map_digest


def remapped(topic: Topic, stored: Mapping[str, Region], order: MapOrder, now: int) -> list[Region]:
    """Return the regions that a map adds or changes.

    The first map after a reset, or after the database was restored, starts over: regions that were GONE are treated
    like the others. No earlier report counts: the caller has forgotten them. ``stored``: those of the topic's regions
    that the map names, by name, GONE ones included.

    Raises:
        BadInput: a region begins below the floor.
    """
    over = starts_over(topic)
    changed: dict[str, Region] = {}
    active = {name: r for name, r in stored.items() if over or r.state is not RegionState.GONE}
    for mapping in order.regions:
        region = active.get(mapping.region)
        if region is not None:
            mapped: dict[str, Any] = {"state": RegionState.MAPPED, "releases_at": None, "until": None}
            changed[mapping.region] = region.model_copy(update=mapped | _led(region, mapping))
        else:
            # An entry that was named for an earlier topic of that name may exist in this one as well.
            first_known = mapping.model_copy(update={"first": None}) if over else mapping
            changed[mapping.region] = _newly_mapped(topic, first_known, stored.get(mapping.region))
    leaving: tuple[RegionMove | RegionDrop, ...] = (*order.moved, *order.dropped)
    for left in leaving:
        name = left.region
        # A region that no map named before it left: until its node reports, every entry may be its own.
        region = active.get(name) or (None if name in stored else Region(topic=topic.name, region=name))
        if region is None:
            continue
        if isinstance(left, RegionMove):
            columns = _led(region, left)
            if region.state is not RegionState.MOVED:
                columns |= {"state": RegionState.MOVED, "releases_at": None, "until": None}
        else:
            releases_at = now + left.undrop_seconds * 1000
            columns = {"state": RegionState.DROPPED, "releases_at": releases_at, "until": None}
        changed[name] = region.model_copy(update=columns)
    return [region for name, region in changed.items() if region != stored.get(name)]


def _led(region: Region, order: RegionMapping | RegionMove) -> dict[str, Any]:
    """Return the columns of a region whose epoch and node a map names."""
    if order.epoch > region.epoch:
        return {"epoch": order.epoch, "mapped_node": order.node, **NEW_LEADER}
    if order.node not in ("", region.leader):
        return {"mapped_node": order.node, **NEW_LEADER}
    return {"mapped_node": order.node}


def _newly_mapped(topic: Topic, mapping: RegionMapping, gone: Region | None) -> Region:
    """Return a region that is mapped for the first time, or that returns; ``gone``: as it was when it went GONE."""
    if mapping.first is not None and mapping.first < (topic.floor or 0):
        raise BadInput(
            f"region {mapping.region} cannot begin at {mapping.first}: topic {topic.name} is purged below "
            f"{topic.floor}; read its end again, before the first append"
        )
    # A first entry above the known end may be a newer end, or wrong: it counts once a purge sees an end that high. If
    # no purge has seen the topic's end yet, the region's reader verifies the entry.
    end = mapping.first or 0 if topic.log_end is None else topic.log_end
    first = None if mapping.first is None else min(mapping.first, end)
    counts = mapping.first is None or mapping.first <= (topic.log_end or 0)
    need: dict[str, Any] = {"keep_from": first} if counts else {"pending_keep_from": mapping.first}
    need["mapped_node"] = mapping.node
    if gone is None:
        return Region(topic=topic.name, region=mapping.region, epoch=mapping.epoch, first=first or 0, **need)
    # Remember what it had flushed before: it may return with a manifest that was restored from a backup. Purges do not
    # read regions that are GONE, so a pending report that counts by now is accepted here.
    accepted = accept_pending(gone, topic.log_end or 0) or {}
    flushed_before: dict[str, Any] = {"first": gone.first, "flushed": accepted.get("flushed", gone.flushed)}
    epoch = max(gone.epoch, mapping.epoch)
    return Region(topic=topic.name, region=mapping.region, epoch=epoch, **flushed_before, **need)


class Opening(NamedTuple):
    """A region that may open: the first entry that it reads, and the columns of its row that change."""

    start: int
    columns: dict[str, Any]


def decide_opening(region: Region | None, topic: Topic, order: OpenRegionOrder) -> Opening:
    """Decide where a region begins to read.

    ``region``: None, no map has named it. One that is GONE is treated alike: the owner's map no longer names it, so the
    owner must map it again first. ``order``: which region opens, in which epoch, and what its manifest names.

    Raises:
        UnknownRegion, OldEpoch, EpochTooHigh, RegionOfAnotherNode, ReplayRefused: why it must not open.
    """
    if region is None or region.state is RegionState.GONE:
        raise UnknownRegion(order.topic, order.region)
    _check_leader(region, order)
    if region.state is RegionState.DROPPED:
        raise ReplayRefused(f"region {order.region} is dropped; map it to topic {order.topic} again first")
    if topic.quarantined:
        raise ReplayRefused(f"topic {order.topic} is quarantined: {topic.quarantined}")
    start = replay_start(region, order.flushed, topic.log_end)
    if start is None:
        reset = region.source is KeepFromSource.RESET
        reason = "after a reset its manifest proves nothing" if reset else "it has no manifest"
        raise ReplayRefused(
            f"the first entry that region {order.region} needs is unknown: {reason}, and it has not reported; an "
            f"operator sets it: sexton wal reset {order.topic} --region {order.region} --to ENTRY"
        )
    missing = missing_entries(topic, order.region, start)
    if missing is not None:
        purged_to = f"below {topic.floor}" if topic.floor else "nothing"
        cause = f"the log itself deleted them, perhaps by its retention: Sexton purged {purged_to}"
        if missing.first < (topic.floor or 0):
            cause = "its manifest is older than its reports"
        raise ReplayRefused(
            f"region {order.region} needs entries {missing} of topic {order.topic}, which are deleted; {cause}"
        )
    return _open_at(region, topic, order, start)


def replay_start(region: Region, flushed: Sequence[int | None], log_end: int | None = None) -> int | None:
    """Return where a region begins to read; None if it is unknown which entries it needs.

    A region's reports count only if, in every stream, its manifest names at least what was reported. A manifest that
    was restored from a backup lacks later flushes, and the region begins where that manifest ends (the
    ``last_purged_entry_id`` of GreptimeDB's RFC would hide that). After a reset the manifest proves nothing: its ids
    may be those of a deleted topic.

    ``flushed``: for each stream the last entry that the manifest names. ``log_end``: as last seen; None: never seen.
    """
    if region.source is KeepFromSource.RESET:
        return region.keep_from
    progress = manifest_progress(flushed)
    # A ``region.first`` above the topic's known end was wrong. 0 is safe then: the region reads too much, never too
    # little.
    first = region.first if log_end is None or region.first <= log_end else 0
    manifest_start = max(first, min(progress))
    if region.keep_from is None:
        return manifest_start if any(progress) or region.pending_keep_from is not None else None
    if _covers_reports(progress, region):
        return max(manifest_start, region.keep_from)
    return manifest_start


def missing_entries(topic: Topic, region_name: str, start: int) -> Missing | None:
    """Return the entries from ``start`` on that are deleted already; None if all exist."""
    first_left = max(topic.floor or 0, topic.log_start or 0)
    return Missing(region=region_name, first=start, last=first_left - 1) if start < first_left else None


def _check_leader(region: Region, order: OpenRegionOrder) -> None:
    """Refuse an epoch that is over or too high, and another node than the region's leader."""
    reset = f"an operator starts its epochs again: sexton wal reset {order.topic} --region {order.region} --epoch N"
    last = max(0, region.epoch)
    about = f"region {order.region} of topic {order.topic} is in epoch {last}"
    if order.epoch < region.epoch:
        remedy = f"; {reset}" if region.epoch >= MAX_EPOCH else ""
        raise OldEpoch(
            f"region {order.region} has a leader of epoch {region.epoch}; epoch {order.epoch} is over{remedy}"
        )
    if region.leader not in ("", order.node):
        raise of_another_node(region, order.node)
    if order.epoch > max(MAX_EPOCH, region.epoch):
        raise EpochTooHigh(f"{about}, and epoch {order.epoch} is above the last possible one, {MAX_EPOCH}; {reset}")
    if order.epoch > last + MAX_EPOCH_STEP:
        raise EpochTooHigh(
            f"{about}, and an opening raises it by {MAX_EPOCH_STEP:,} at most: if epoch {order.epoch} is right, the "
            "owner's map names it first"
        )


def _open_at(region: Region, topic: Topic, order: OpenRegionOrder, start: int) -> Opening:
    """Return the opening of a region at its start; raise ``OldEpoch`` if it needs a new epoch to read entries again."""
    columns: dict[str, Any] = {"epoch": order.epoch, "node": order.node, **CLEAR_PENDING}
    progress = manifest_progress(order.flushed)
    if region.keep_from is not None and start >= region.keep_from:
        if order.epoch > region.epoch and not _covers_reports(progress, region):
            columns["flushed"] = progress  # the new leader's manifest grows from here on
        return Opening(start, columns)
    if region.keep_from is not None and order.epoch == region.epoch:
        raise OldEpoch(
            f"the manifest of region {order.region} names less than was reported in epoch {order.epoch}; open it in "
            "a new epoch, so that late reports of the old one are ignored"
        )
    # No file has the entries that it reads again, so they are needed until flushed. A start above the known end may be
    # a newer end, or wrong: like a report, it counts once a purge sees an end that high.
    if start <= (topic.log_end or 0):
        return Opening(start, columns | {"keep_from": start, "flushed": progress, "source": KeepFromSource.OPENED})
    return Opening(start, columns | {"pending_keep_from": start, "pending_flushed": progress})


def _covers_reports(progress: Sequence[int], region: Region) -> bool:
    """Return whether a manifest names at least what was reported, also in the report that is pending."""
    return all(
        len(progress) == len(reported) and all(now >= before for now, before in zip(progress, reported, strict=True))
        for reported in (region.flushed, region.pending_flushed)
        if reported
    )
