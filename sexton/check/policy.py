"""When what a check found may be believed. Pure: instants are arguments, ms since 1970.

A listing that came out short makes live objects look lost, a live side that came out short makes them look like
orphans: what a run could not see to its end proves nothing (JuiceFS #6479, Neon #12921).
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping

from sexton.check.model import (
    Discrepancy,
    Evidence,
    Finding,
    FindingState,
    PreviousRun,
    Run,
    RunVerdict,
    Type,
)
from sexton.marks.live import LiveEntry
from sexton.storage.identity import canonical
from sexton.storage.model import RESERVED_PREFIX, Listed

GRACE_FLOOR_SECONDS = 3_600
"""No object younger than this is ever judged: longer than the longest write."""
APART_MS = 86_400_000
"""An orphan is confirmed by being seen in two whole runs that lie so far apart."""
FRESH_MS = 2 * 86_400_000
"""A run older than this says nothing about today."""
SHRINK = 0.5
"""A run that sees less than this part of what the last whole run saw is not believed."""
MOST_ORPHANS = 0.01
"""Share of the objects that a repair may mark at most: more is a fault of the check, or of the metadata."""


def judge(evidence: Evidence, before: PreviousRun | None) -> RunVerdict:
    """Return whether a run is whole: each reason why it is not is one sentence."""
    lacks = list(evidence.errors)
    if not evidence.listings and evidence.errors:
        return RunVerdict(lacks=tuple(lacks))  # it did not come far enough to lack anything else
    if not evidence.listings:
        lacks.append("no vault was listed")
    for its in evidence.listings:
        lacks += [f"vault {its.vault}: {error}" for error in its.errors]
        if its.ended < its.parts:
            lacks.append(f"vault {its.vault}: {its.parts - its.ended} of {its.parts} parts of its listing did not end")
    if evidence.listed_at is None:
        lacks.append("the listing did not end")
    if evidence.live is None:
        lacks.append("the live side was not read to its end")
    elif evidence.live + evidence.prefixes == 0:
        lacks.append("no live file was seen: an empty live side would make every object an orphan")
    else:
        for its in evidence.listings:
            if its.objects and not its.live:
                lacks.append(f"vault {its.vault}: {its.objects:,} objects, and no record names a live one in it")
    if evidence.live_from is not None and evidence.listed_at is not None and evidence.live_from < evidence.listed_at:
        lacks.append("the live side was read before the listing ended: what was written between looks like an orphan")
    if before is not None:
        for its in evidence.listings:
            lacks += _shrunk(its.vault, "objects", its.objects, before.objects.get(its.vault, 0))
            if evidence.live is not None:
                lacks += _shrunk(its.vault, "live files", its.live, before.live.get(its.vault, 0))
    return RunVerdict(lacks=tuple(lacks))


def _shrunk(vault: str, what: str, now: int, before: int) -> list[str]:
    if now >= before * SHRINK:
        return []
    told = f"{now:,} {what} are far below the {before:,} of the last whole run"
    return [f"vault {vault}: {told}; if rightly so: sexton check rebase"]


def live_read(seen: Evidence, at: int, files: Mapping[str, int], prefixes: Mapping[str, int]) -> Evidence:
    """Return the evidence with what the live side names: vault → live files, and live prefixes; ``at``: when (ms)."""
    ours = {its.vault for its in seen.listings}
    listings = tuple(
        its.model_copy(update={"live": files.get(its.vault, 0) + prefixes.get(its.vault, 0)}) for its in seen.listings
    )
    strange = ", ".join(sorted((files.keys() | prefixes.keys()) - ours))[:200]
    notes = (f"live rows name vaults that the instance has not: {strange}",) if strange else ()
    told = {"live_from": at, "live": sum(files.values()), "prefixes": sum(prefixes.values())}
    return seen.model_copy(update={**told, "listings": listings, "notes": notes})


ACT_DAYS = 3
"""Days that a person should have, from hearing of a loss, until its versions are gone."""


def judged_until(cutoff: int, grace_seconds: int) -> str:
    """Return up to when an object was written that is judged, as ``Listed.written``: its record should be there."""
    until = cutoff // 1000 - max(grace_seconds, GRACE_FLOOR_SECONDS)
    return dt.datetime.fromtimestamp(until, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def old_enough(written: str, until: str) -> bool:
    """Tell whether an object is judged; one of which nobody tells when it was written is not."""
    return "" < written <= until


class Kinds:
    """What an object that nobody knows is, by its key."""

    def __init__(self, pattern: str) -> None:
        """``pattern``: see ``check.port.Live.pattern``."""
        self._pattern = re.compile(pattern) if pattern else None

    def unknown(self, vault: str, key: str, size: int, etag: str) -> Discrepancy:
        """Return the finding: only what is made like the owner's own files is an orphan."""
        its = self._pattern.fullmatch(key) if self._pattern else None
        if its is None or "\0" in key:
            return Discrepancy(type=Type.UNKNOWN_KIND, vault=vault, key=key, size=size, etag=etag)
        record = its.groupdict().get("record") or ""
        return Discrepancy(type=Type.ORPHAN, vault=vault, key=key, size=size, etag=etag, record=record)


def still(finding: Finding, known: Iterable[LiveEntry], there: Mapping[tuple[str, str], Listed]) -> bool:
    """Tell whether a second look at the record and the object finds what the first did.

    Args:
        finding: something LOST, or of another size.
        known: what its record says now.
        there: the objects there now, by vault and key.
    """
    wanted = canonical(finding.key)
    named = [k for k in known if k.live and not k.prefix and k.vault == finding.vault and k.name == wanted]
    found = there.get((finding.vault, finding.key))
    if found is None or not named:
        return bool(named)
    return all(k.bytes is not None and k.bytes != found.bytes for k in named)


def listed_by(last: Run | None) -> int:
    """Return how many objects a run listed, young ones too."""
    listings = last.evidence.listings if last is not None and last.evidence is not None else ()
    return sum(its.objects + its.young for its in listings)


def repairable(finding: Finding) -> bool:
    """Tell whether a repair may take it up: confirmed, still open, and of a kind that says what should be."""
    ours = finding.key.startswith(RESERVED_PREFIX)
    known = finding.type in (Type.ORPHAN, Type.LOST)
    return known and finding.state is FindingState.OPEN and finding.confirmed_at is not None and not ours


def too_many(vault: str, orphans: int, objects: int) -> str:
    """Return why so many orphans are not marked; empty where they may be."""
    if orphans <= objects * MOST_ORPHANS:
        return ""
    share = f"{100 * orphans / objects:.1f} %" if objects else "all"
    return (
        f"{orphans:,} orphans are {share} of the {objects:,} objects of vault {vault}; "
        f"a repair takes at most {100 * MOST_ORPHANS:g} %"
    )


def tells_too_late(interval_seconds: int, versions_days: int) -> bool:
    """Tell whether a loss may be told when what would undo it is gone, or leaves less than ``ACT_DAYS`` to do so."""
    return interval_seconds > (versions_days - ACT_DAYS) * 86_400
