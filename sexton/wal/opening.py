"""Decide where a region that is opened begins to read, or why it must not open. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sexton.wal.model import MAX_EPOCH, MAX_EPOCH_STEP, KeepFromSource, Missing, Region, RegionState, Topic
from sexton.wal.orders import OpenRegionOrder
from sexton.wal.port import EpochTooHigh, OldEpoch, RegionOfAnotherNode, ReplayRefused, UnknownRegion, of_another_node
from sexton.wal.reports import CLEAR_PENDING, manifest_progress

Refusal = UnknownRegion | OldEpoch | EpochTooHigh | RegionOfAnotherNode | ReplayRefused
"""Why a region must not open, as the exception that the caller raises."""


class Opening(NamedTuple):
    """A region that may open: the first entry that it reads, and the columns of its row that change."""

    start: int
    columns: dict[str, Any]


def decide_opening(region: Region | None, topic: Topic, order: OpenRegionOrder) -> Opening | Refusal:
    """Decide where a region begins to read, or why it must not open.

    Args:
        region: as it is stored; None: no map has named it. A region that is GONE is treated alike: the owner's map no
            longer names it, so the owner must map it again first.
        topic: as it is stored.
        order: which region opens, in which epoch, and what its manifest names.
    """
    if region is None or region.state is RegionState.GONE:
        return UnknownRegion(order.topic, order.region)
    refusal = _why_refused(region, topic, order)
    if refusal is not None:
        return refusal
    start = replay_start(region, order.flushed, topic.log_end)
    if start is None:
        reset = region.source is KeepFromSource.RESET
        reason = "after a reset its manifest proves nothing" if reset else "it has no manifest"
        return ReplayRefused(
            f"the first entry that region {order.region} needs is unknown: {reason}, and it has not reported; an "
            f"operator sets it: sexton wal reset {order.topic} --region {order.region} --to ENTRY"
        )
    missing = missing_entries(topic, order.region, start)
    if missing is not None:
        purged_to = f"below {topic.floor}" if topic.floor else "nothing"
        cause = f"the log itself deleted them, perhaps by its retention: Sexton purged {purged_to}"
        if missing.first < (topic.floor or 0):
            cause = "its manifest is older than its reports"
        return ReplayRefused(
            f"region {order.region} needs entries {missing} of topic {order.topic}, which are deleted; {cause}", missing
        )
    return _open_at(region, topic, order, start)


def replay_start(region: Region, flushed: Sequence[int | None], log_end: int | None = None) -> int | None:
    """Return where a region begins to read; None if it is unknown which entries it needs.

    A region's reports count only if, in every stream, its manifest names at least what was reported. A manifest that
    was restored from a backup lacks later flushes, and the region begins where that manifest ends (the
    ``last_purged_entry_id`` of GreptimeDB's RFC would hide that). After a reset the manifest proves nothing: its ids
    may be those of a deleted topic.

    Args:
        region: as it is stored.
        flushed: for each stream the last entry that the manifest names.
        log_end: the topic's end as last seen; None: never seen.
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


def _open_at(region: Region, topic: Topic, order: OpenRegionOrder, start: int) -> Opening | OldEpoch:
    """Return the opening of a region at its start, unless it needs a new epoch to read entries again."""
    columns: dict[str, Any] = {"epoch": order.epoch, "node": order.node, **CLEAR_PENDING}
    progress = manifest_progress(order.flushed)
    if region.keep_from is not None and start >= region.keep_from:
        if order.epoch > region.epoch and not _covers_reports(progress, region):
            columns["flushed"] = progress  # the new leader's manifest grows from here on
        return Opening(start, columns)
    if region.keep_from is not None and order.epoch == region.epoch:
        return OldEpoch(
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


def _why_refused(region: Region, topic: Topic, order: OpenRegionOrder) -> Refusal | None:
    if order.epoch < region.epoch:
        remedy = f"; {_reset_command(order)}" if region.epoch >= MAX_EPOCH else ""
        return OldEpoch(
            f"region {order.region} has a leader of epoch {region.epoch}; epoch {order.epoch} is over{remedy}"
        )
    if region.leader not in ("", order.node):
        return of_another_node(region, order.node)
    if order.epoch > region.epoch:
        too_high = _why_too_high(region, order)
        if too_high is not None:
            return too_high
    if region.state is RegionState.DROPPED:
        return ReplayRefused(f"region {order.region} is dropped; map it to topic {order.topic} again first")
    if topic.quarantined:
        return ReplayRefused(f"topic {order.topic} is quarantined: {topic.quarantined}")
    return None


def _why_too_high(region: Region, order: OpenRegionOrder) -> EpochTooHigh | None:
    last = max(0, region.epoch)
    about = f"region {order.region} of topic {order.topic} is in epoch {last}"
    if order.epoch > MAX_EPOCH:
        return EpochTooHigh(
            f"{about}, and epoch {order.epoch} is above the last possible one, {MAX_EPOCH}; {_reset_command(order)}"
        )
    if order.epoch > last + MAX_EPOCH_STEP:
        return EpochTooHigh(
            f"{about}, and an opening raises it by {MAX_EPOCH_STEP:,} at most: if epoch {order.epoch} is right, the "
            "owner's map names it first"
        )
    return None


def _reset_command(order: OpenRegionOrder) -> str:
    return f"an operator starts its epochs again: sexton wal reset {order.topic} --region {order.region} --epoch N"
