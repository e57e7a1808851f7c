"""What a report makes of a replica, and what a tablet's replicas still need. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sexton.kernel.errors import BadInput
from sexton.replication.journal.model import ReplicaOutcome as Told
from sexton.replication.journal.model import ReportKind
from sexton.replication.replicas.model import Replica, ReplicaSettings, TabletReport
from sexton.replication.replicas.state_machine import NONE, VersionState, updated
from sexton.replication.replicas.version_graph import HIGHEST, NO_VERSION, judged

BY_LIMIT = "hold limit"
"""Why a replica no longer counts that was unwell for too long."""


class ReportedVersions(NamedTuple):
    """What a backend says of a copy, in one form. ``needs``: the first version that it lacks."""

    version: int
    needs: int
    highest: int
    bad: bool
    gap: bool
    crossing: bool


class Judged(NamedTuple):
    """A replica after a report, and what the journal is told of it: nothing where nothing changed for others."""

    replica: Replica
    told: tuple[Told, ...]


def seen(its: TabletReport) -> ReportedVersions:
    """Return what a report says of a copy. One without any version is bad, whatever else it says.

    Raises:
        BadInput: a version or a range cannot be.
    """
    if its.ranges is not None:
        graph = judged(its.ranges)
        version, highest, crossing = graph.continuous, graph.highest, graph.crossing
    else:
        version = NO_VERSION if its.version is None else its.version
        if not NO_VERSION <= version <= HIGHEST:
            raise BadInput(f"{version} is no version: 0 to {HIGHEST}, or -1 for none")
        highest, crossing = version, False
    bad = its.bad or highest == NO_VERSION
    return ReportedVersions(
        version, 0 if bad else version + 1, highest, bad, highest > version or its.version_miss, crossing
    )


def reported(before: Replica, said: ReportedVersions, now: int, terms: ReplicaSettings) -> Judged:
    """Return what a report makes of a replica.

    What it lacks counts at once, for what may go. That it is to be repaired is said when it has lacked that for a
    while: versions may come one after another in any order.

    Args:
        before: as it was known.
        said: what the backend says.
        now: ms since 1970.
        terms: when a gap is one.
    """
    # One that had more before lacks what it had, also where nothing is behind the gap.
    gap = not said.bad and (said.gap or said.version < before.version)
    same = before.gap_since is not None and before.needs == said.needs
    gap_since = ((before.gap_since if same else None) or now) if gap else None
    persists = gap_since is not None and now - gap_since >= terms.gap_persist_seconds * 1000
    state = VersionState(before.version, before.failed, before.succeeded)
    if not said.bad:  # bad wins: of what cannot be read no version is worth anything
        state = updated(state, version=said.version)
        if persists and state.failed == NONE:
            state = updated(state, failed=state.version + 1)
        elif not gap and state.failed != NONE:
            state = updated(state, committed=state.version)  # whole again: what failed above never came to be
    values: dict[str, Any] = {"version": state.version, "failed": state.failed, "succeeded": state.succeeded}
    values |= {"needs": said.needs, "highest": said.highest, "crossing": said.crossing, "gap_since": gap_since}
    values |= {"bad_since": (before.bad_since or now) if said.bad else None}
    if before.full_copy and not said.bad and not gap and said.version >= max(before.full_copy_until, before.gone):
        values |= {"full_copy": "", "full_copy_at": None}  # it was copied in full, and lacks nothing that may be gone
    after = before.model_copy(update=values)
    return Judged(after, tuple(_told(before, after)))


def _told(before: Replica, after: Replica) -> Iterable[Told]:
    if after.bad:
        if not before.bad:
            yield Told(tablet=after.tablet, kind=ReportKind.BAD)
        return
    if before.bad or (after.failed == NONE and before.failed != NONE):
        yield Told(tablet=after.tablet, kind=ReportKind.HEALTHY)
    if after.failed != NONE and (before.bad or after.failed != before.failed):
        yield Told(tablet=after.tablet, kind=ReportKind.MISSING_VERSION, failed=after.failed)


def standing(its: Replica) -> Iterable[tuple[str, Told]]:
    """Return what a follower that begins anew is told of a replica, with its backend; nothing of one in order."""
    if its.failed != NONE:
        yield its.backend, Told(tablet=its.tablet, kind=ReportKind.MISSING_VERSION, failed=its.failed)
    if its.bad:
        yield its.backend, Told(tablet=its.tablet, kind=ReportKind.BAD)


def need(its: Replica, now: int) -> int:
    """Return the first version that a replica still has to get: all below may go, as far as it is concerned.

    Nothing may where its report is not fresh: what it lacks by now nobody knows.
    """
    return 0 if its.bad or its.fresh_until <= now else its.needs


def lowest(replicas: Iterable[Replica], now: int) -> tuple[int, Replica | None] | None:
    """Return the first version that one of a tablet's replicas still has to get, and which one that is.

    None where the tablet has no replicas: nobody copies from one to another then, and this is not asked. Where none of
    them counts nothing may go: the last copy may be among them.
    """
    every = [r for r in replicas if not r.dropped]
    if not every:
        return None
    counts = [r for r in every if not r.full_copy]
    if not counts:
        return 0, None
    least = min(counts, key=lambda r: (need(r, now), r.backend))
    return need(least, now), least


def unwell(its: Replica, now: int) -> str:
    """Return what is wrong with a replica, in words; empty: nothing is."""
    said = []
    if its.bad:
        said.append("bad")
    if its.gap_since is not None:
        said.append(f"version {its.needs} is missing" + (", to be repaired" if its.failed != NONE else ""))
    if its.crossing:
        said.append("ranges of versions cross")
    if its.fresh_until <= now:
        said.append("no fresh report")
    return ", ".join(said)
