"""When what a check found may be believed. Pure: instants are arguments, ms since 1970.

A listing that came out short makes live objects look lost, a live side that came out short makes them look like
orphans: what a run could not see to its end proves nothing (JuiceFS #6479, Neon #12921).
"""

from sexton.check.model import Before, Evidence, Finding, State, Type, Verdict
from sexton.storage.model import RESERVED_PREFIX

GRACE_FLOOR_SECONDS = 3_600
"""No object younger than this is ever judged: longer than the longest write."""
APART_MS = 86_400_000
"""An orphan is confirmed by being seen in two whole runs that lie so far apart."""
SHRINK = 0.5
"""A run that sees less than this part of what the last whole run saw is not believed."""
MOST_ORPHANS = 0.01
"""Share of the objects that a repair may mark at most: more is a fault of the check, or of the metadata."""


def judge(evidence: Evidence, before: Before | None) -> Verdict:
    """Return whether a run is whole: each reason why it is not is one sentence."""
    lacks = list(evidence.errors)
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
    elif evidence.live == 0:
        lacks.append("no live file was seen: an empty live side would make every object an orphan")
    if evidence.live_from is not None and evidence.listed_at is not None and evidence.live_from < evidence.listed_at:
        lacks.append("the live side was read before the listing ended: what was written between looks like an orphan")
    if before is not None:
        lacks += _shrunk("objects", evidence.objects, before.objects)
        lacks += [] if evidence.live is None else _shrunk("live files", evidence.live, before.live)
    return Verdict(lacks=tuple(lacks))


def _shrunk(what: str, now: int, before: int) -> list[str]:
    if now >= before * SHRINK:
        return []
    return [f"{now:,} {what} are far below the {before:,} of the last whole run"]


def old_enough(written_at: int, cutoff: int, grace_seconds: int) -> bool:
    """Tell whether an object is judged: written so long before the run began that its record should be there."""
    return written_at <= cutoff - max(grace_seconds, GRACE_FLOOR_SECONDS) * 1000


def confirms(finding: Finding, cutoff: int) -> bool:
    """Tell whether a whole run that saw the finding confirms it by that alone.

    Only orphans: what is lost, or has another size, is looked at once more by itself.
    """
    proven = finding.proven_at
    return finding.type is Type.ORPHAN and proven is not None and cutoff - proven >= APART_MS


def repairable(finding: Finding) -> bool:
    """Tell whether a repair may take it up: confirmed, still open, and of a kind that says what should be."""
    ours = finding.key.startswith(RESERVED_PREFIX)
    known = finding.type in (Type.ORPHAN, Type.LOST)
    return known and finding.state is State.OPEN and finding.confirmed_at is not None and not ours


def too_many(orphans: int, objects: int) -> str:
    """Return why so many orphans are not marked; empty where they may be."""
    if orphans <= objects * MOST_ORPHANS:
        return ""
    share = f"{100 * orphans / objects:.1f} %" if objects else "all"
    return (
        f"{orphans:,} orphans are {share} of the {objects:,} objects; a repair takes at most {100 * MOST_ORPHANS:g} %"
    )
