"""Decide which regions change when an owner sends the map of a topic. Pure: ``now`` is an argument."""

from collections.abc import Mapping
from typing import Any

from sexton.kernel.errors import BadInput
from sexton.wal.model import Region, RegionState, Topic
from sexton.wal.orders import MapOrder, RegionDrop, RegionMapping, RegionMove
from sexton.wal.reports import NEW_LEADER, accept_pending


def starts_over(topic: Topic) -> bool:
    """Return whether the next map is the first one after a reset, or after the database was restored."""
    return topic.generation is not None and not topic.map_digest


def remapped(topic: Topic, stored: Mapping[str, Region], order: MapOrder, now: int) -> list[Region]:
    """Return the regions that a map adds or changes.

    The first map after a reset, or after the database was restored, starts over: regions that were GONE are treated
    like the others. No earlier report counts: the caller has forgotten them.

    Args:
        topic: as it is stored.
        stored: those of the topic's regions that the map names, by name, GONE ones included.
        order: the owner's map.
        now: ms since 1970.

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
