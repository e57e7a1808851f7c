"""Derive a replica's state from a report, and find which versions a tablet's replicas still need. Pure.

Its versions change as in the five cases of Doris' ``Replica``. They have no hashes here, so case 5, a failed version
that equals V with an unknown hash, falls under case 4.

After any update, whatever the state before: V has not decreased; there is no failed version, or it is above V; and the
succeeded version is V, or is above the failed version while there is one.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from sexton.kernel.errors import BadInput
from sexton.replication.agent.model import MAX_VERSION
from sexton.replication.journal.model import ReplicaOutcome, ReportKind
from sexton.replication.replicas.model import MAX_RANGES, NO_VERSION, Replica, ReplicaSettings, TabletReport


class VersionState(NamedTuple):
    """The versions of one replica, as far as reports and commits are known."""

    version: int
    """V: all versions up to this one can be read."""
    failed: int
    """LFV, the last failed version: a version above V that is missing; -1: none."""
    succeeded: int
    """LSV, the last written version: while a version failed, there are holes between V and this one."""


def updated(
    state: VersionState,
    *,
    version: int | None = None,
    failed: int | None = None,
    succeeded: int | None = None,
    committed: int | None = None,
) -> VersionState:
    """Return the state of a replica after an update; an argument that is None leaves its part unchanged.

    Args:
        state: the state before.
        version: V now. If it is below the known V, the answer is late, and nothing changes, whatever else is given.
        failed: a missing version; it replaces only a lower one. For a gap that was found it is V + 1.
        succeeded: a version that was written.
        committed: the partition's committed version. Pass it when a clone is done, not with a gap that was just found:
            a replica that has all committed versions lacks none, and a failed version above them was never committed.
    """
    new_version = state.version if version is None else version
    if new_version < state.version:
        return state
    reported_failed = state.failed if failed is None else failed
    new_succeeded = max(new_version, state.succeeded, state.succeeded if succeeded is None else succeeded)
    new_failed = max(reported_failed, state.failed)
    # Cases 1 to 3: a written version counts only above the failed one, and not at all if that one is new.
    if reported_failed != state.failed or new_failed >= new_succeeded:
        new_succeeded = new_version
    if new_version >= new_failed:  # cases 4 and 5: it has caught up, and versions written after the failed one count
        return VersionState(new_succeeded, NO_VERSION, new_succeeded)
    if new_version == committed:  # the failed version lies above the committed ones
        return VersionState(new_version, NO_VERSION, new_version)
    return VersionState(new_version, new_failed, new_succeeded)


BY_LIMIT = "hold limit"
"""The reason of a replica that is FULL_COPY_ONLY because it was unhealthy for too long."""
Range = tuple[int, int]
"""The versions of a rowset, both ends included."""


class Graph(NamedTuple):
    """The versions that a replica can read by its rowsets' ranges."""

    continuous: int
    """The highest version that a path leads to; -1 if there is none."""
    highest: int
    """The highest version that any range covers; -1 if there are no ranges."""
    crossing: bool
    """Whether two ranges overlap and neither contains the other."""


class ReportedVersions(NamedTuple):
    """A backend's report on one replica, in one form.

    ``continuous``: all versions up to this one can be read; ``needs``: the first version that it lacks. Both are upper
    bounds where ``unknown``: somewhere below ``highest`` a version is missing, and the report does not say which.
    """

    continuous: int
    needs: int
    highest: int
    bad: bool
    gap: bool
    crossing: bool
    unknown: bool = False
    schema_hash: int | None = None


class Judged(NamedTuple):
    """A replica after a report, and the outcome for the journal: None if nothing changed for followers."""

    replica: Replica
    outcome: ReplicaOutcome | None


def judge_ranges(ranges: Collection[Range]) -> Graph:
    """Return the readable versions of a replica from its ranges, which may be in any order; takes O(n log n).

    A version can be read if a path of ranges leads to it: the first range starts at 0, each next one right after the
    end of the one before. Two ranges may cover the same versions, because compaction leaves the ranges that it
    replaced; ranges that cross are corrupt.

    Raises:
        BadInput: a range is impossible, or there are too many.
    """
    if len(ranges) > MAX_RANGES:
        raise BadInput(f"a replica has at most {MAX_RANGES:,} version ranges, not {len(ranges):,}; compact it")
    for start, end in ranges:
        if not 0 <= start <= end <= MAX_VERSION:
            raise BadInput(f"[{start}, {end}] is not a range of versions: 0 <= start <= end <= {MAX_VERSION}")
    ordered = sorted(set(ranges), key=lambda r: (r[0], -r[1]))  # of equal starts the longest first
    reached, highest = {0}, NO_VERSION
    for start, end in ordered:
        highest = max(highest, end)
        if start in reached:
            reached.add(end + 1)
    return Graph(max(reached) - 1, highest, _has_crossing(ordered))


def _has_crossing(ordered: Sequence[Range]) -> bool:
    open_ends: list[int] = []
    """A heap of the ends of ranges that a later one may cross."""
    for start, end in ordered:
        while open_ends and open_ends[0] < start:
            heappop(open_ends)
        # Of equal starts the longest comes first, so a range that ends earlier has started earlier too.
        if open_ends and open_ends[0] < end:
            return True
        heappush(open_ends, end)
    return False


def reported_versions(report: TabletReport) -> ReportedVersions:
    """Return the versions that a report names. A replica without any version is bad, whatever else is reported.

    Raises:
        BadInput: a version or a range is impossible.
    """
    highest = NO_VERSION if report.version is None else report.version
    if not NO_VERSION <= highest <= MAX_VERSION:
        raise BadInput(f"{highest} is not a version: use 0 to {MAX_VERSION}, or -1 for none")
    continuous, crossing = highest, False
    if report.ranges is not None:
        graph = judge_ranges(report.ranges)
        continuous, highest, crossing = graph.continuous, max(graph.highest, highest), graph.crossing
    bad = report.bad or highest == NO_VERSION or report.ranges == ()
    return ReportedVersions(
        continuous=continuous,
        needs=0 if bad else continuous + 1,
        highest=highest,
        bad=bad,
        gap=highest > continuous or report.version_miss,
        crossing=crossing,
        unknown=report.version_miss and continuous == highest and not bad,
        schema_hash=report.schema_hash,
    )


def _bounded(before: Replica, report: ReportedVersions) -> ReportedVersions:
    """Return a report of an unknown gap with what was known before: everything from there on is still needed.

    Where no version lies between the last one known to be continuous and the highest one, the gap is among those that
    were known: then nothing is.
    """
    known = before.continuous_version
    needs = max(0, min(before.needs, known)) if known < report.highest - 1 else 0
    return report._replace(continuous=min(known, report.highest), needs=needs)


def apply_report(before: Replica, report: ReportedVersions, now: int, settings: ReplicaSettings) -> Judged:
    """Return a replica's state after a report.

    A missing version is retained at once. It is marked for repair only after ``gap_persist_seconds``, because versions
    may arrive in any order. A replica that is bad, or marked, stays so until a report shows that it misses none. One
    with another schema than its tablet is bad, whatever versions it reports.
    """
    if report.schema_hash is not None:
        before = before.model_copy(update={"reported_schema_hash": report.schema_hash})
    if before.schema_differs:
        report = report._replace(bad=True)
    if report.unknown:
        report = _bounded(before, report)
    # A FULL_COPY_ONLY replica is whole again if it lacks no version that may be deleted by now.
    is_whole = not report.bad and not report.gap and report.continuous >= max(before.full_copy_until, before.gone)
    was_copied = bool(before.full_copy) and is_whole
    # A replica that had a higher version before lacks it now, even if there is no gap in the report.
    lacks = report.gap or (report.continuous < before.continuous_version and not was_copied)
    bad = report.bad or (before.bad and lacks)
    gap = lacks and not bad
    known_since = before.gap_since if before.needs == report.needs else None  # it lacks the same version as before
    gap_since = (known_since or now) if gap else None
    persists = gap_since is not None and (
        before.failed != NO_VERSION or now - gap_since >= settings.gap_persist_seconds * 1000
    )
    state = VersionState(before.continuous_version, before.failed, before.succeeded)
    if was_copied:  # it has only what was copied: a higher version that it once reported may never have been committed
        state = VersionState(report.continuous, NO_VERSION, report.continuous)
    elif not bad:  # the reported versions of an unreadable replica mean nothing
        state = _state_after(state, report.continuous, gap=gap, persists=persists)
    values: dict[str, Any] = {
        "continuous_version": state.version,
        "failed": state.failed,
        "succeeded": state.succeeded,
        "needs": 0 if bad else report.needs,
        "highest": report.highest,
        "crossing": report.crossing,
        "gap_since": gap_since,
        "bad_since": (before.bad_since or now) if bad else None,
    }
    if was_copied:
        values |= {"full_copy": "", "full_copy_at": None}
    after = before.model_copy(update=values)
    return Judged(after, _outcome(before, after))


def full_copy_bound(replica: Replica, committed: int | None) -> int:
    """Return the version above which no FULL_COPY_ONLY replica is kept waiting, whatever other backends reported.

    ``committed``: the newest version that the owner committed in its partition; None: unknown. Then a replica that was
    unhealthy waits for its own version, and one that an operator gave up for the version after it.
    """
    if committed is not None:
        return committed
    return replica.continuous_version if replica.full_copy == BY_LIMIT else replica.continuous_version + 1


def _state_after(state: VersionState, version: int, *, gap: bool, persists: bool) -> VersionState:
    state = updated(state, version=version)
    if persists and state.failed == NO_VERSION:
        return updated(state, failed=state.version + 1)
    if not gap and state.failed != NO_VERSION:
        return updated(state, committed=state.version)  # no version is missing: the failed one was never committed
    return state


def _outcome(before: Replica, after: Replica) -> ReplicaOutcome | None:
    """Return the change that followers must learn of."""
    if (after.bad, after.failed) == (before.bad, before.failed):
        return None
    if after.bad:
        return ReplicaOutcome(tablet=after.tablet, kind=ReportKind.BAD)
    if after.failed != NO_VERSION:
        return ReplicaOutcome(tablet=after.tablet, kind=ReportKind.MISSING_VERSION, failed=after.failed)
    return ReplicaOutcome(tablet=after.tablet, kind=ReportKind.HEALTHY)


def standing(replica: Replica) -> Iterable[tuple[str, ReplicaOutcome]]:
    """Return (backend, outcome) of a replica for a follower's snapshot; nothing if the replica is healthy."""
    if replica.failed != NO_VERSION:
        outcome = ReplicaOutcome(tablet=replica.tablet, kind=ReportKind.MISSING_VERSION, failed=replica.failed)
        yield replica.backend, outcome
    if replica.bad:
        yield replica.backend, ReplicaOutcome(tablet=replica.tablet, kind=ReportKind.BAD)


def need(replica: Replica, now: int) -> int:
    """Return the first version that a replica still needs: it does not block deletion of the versions below.

    It is 0 if the replica has no fresh report, because its missing versions are unknown then.
    """
    return 0 if replica.bad or replica.fresh_until <= now else replica.needs


def lowest_needed_version(replicas: Iterable[Replica], now: int) -> tuple[int, Replica | None] | None:
    """Return the first version that one of a tablet's replicas still needs, and that replica.

    The replica is None, and the version 0, if no replica counts: nothing may be deleted, because the last good replica
    may be among them. The result is None if the tablet has no replicas: no replica can need a version then.
    """
    live = [replica for replica in replicas if not replica.dropped]
    if not live:
        return None
    counting = [replica for replica in live if not replica.full_copy]
    if not counting:
        return 0, None
    neediest = min(counting, key=lambda replica: (need(replica, now), replica.backend))
    return need(neediest, now), neediest


def describe_faults(replica: Replica, now: int) -> str:
    """Return in words what is wrong with a replica; empty if it is healthy."""
    faults = []
    if replica.bad:
        faults.append("bad")
    if replica.schema_differs:
        faults.append(f"schema hash {replica.reported_schema_hash} in place of {replica.schema_hash}")
    if replica.gap_since is not None:
        repair = ", to be repaired" if replica.failed != NO_VERSION else ""
        faults.append(f"version {replica.needs} is missing{repair}")
    if replica.crossing:
        faults.append("ranges of versions cross")
    if replica.fresh_until <= now:
        faults.append("no fresh report")
    return ", ".join(faults)
