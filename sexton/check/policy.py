"""Decide which findings of a check are reliable. Pure: instants are arguments, ms since 1970.

A listing that is cut short makes live objects look lost, and a live side that is cut short makes them look like
orphans. So a run that could not see everything proves nothing (JuiceFS #6479, Neon #12921).
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sexton.check.model import (
    Discrepancy,
    Evidence,
    Finding,
    FindingState,
    FindingType,
    Heartbeat,
    Listing,
    PeerComparison,
    PreviousRun,
    Run,
    RunState,
)
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry
from sexton.storage.model import RESERVED_PREFIX, ListedObject, VaultPart
from sexton.storage.policy import canonical

GRACE_FLOOR_SECONDS = 3_600
"""No object younger than this is ever judged: longer than the longest write."""
APART_MS = 86_400_000
"""Two whole runs confirm an orphan when they are at least this far apart."""
FRESH_MS = 2 * 86_400_000
MOST_INVENTORY_MS = 3 * 86_400_000
"""How old an inventory may be: a store that writes one each day delivers it within two."""
UNNAMED = (FindingType.ORPHAN, FindingType.UNKNOWN_KIND)
"""The types of objects that no record names."""
"""No decision is based on a run older than this."""
SHRINK_RATIO = 0.5
"""A run that sees less than this share of the last whole run's objects or live files proves nothing. So does one whose
records name less than this share of the share of objects that they named then."""
PREFIXES_NOTE = (
    "{prefixes:,} live rows are prefixes: the loss of an object inside a prefix cannot be detected, and "
    "max_delete_fraction is not in force; show one row per object"
)
MOST_LOST = 100_000
"""LOST findings that a run stores (on Spark: each task); it counts all. A view may show any number of objects."""
REACTION_DAYS = 3
"""Days that an operator should have between the report of a loss and the deletion of the versions that undo it."""


def judge(evidence: Evidence, before: PreviousRun | None) -> tuple[str, ...]:
    """Return what a run lacks, one sentence for each input; nothing: it is whole.

    Only a whole run confirms, proves or ends findings.

    Args:
        evidence: what the run saw.
        before: what the last whole run saw; None: compare with no earlier run.
    """
    if not evidence.listings and evidence.errors:
        return evidence.errors  # it ended too early for the other checks to mean anything
    return (
        *evidence.errors,
        *_listing_gaps(evidence),
        *_live_side_gaps(evidence),
        *(_shrinkage(evidence, before) if before is not None else ()),
    )


def checked_shrunken(instance: str, last: Run | None) -> Run:
    """Return an instance's last run, if it lacks nothing but that it saw far less than a whole one.

    Raises:
        BadInput: there is no such run, so nothing can be accepted.
    """
    if last is None:
        raise BadInput(f"{instance} was never checked, so no check is compared with an earlier one")
    if last.state is RunState.WHOLE:
        raise BadInput(f"check {last.id} of {instance} is complete, so there is nothing to accept")
    gaps = last.missing_inputs if last.evidence is None else judge(last.evidence, None)
    if gaps:
        raise BadInput(
            f"check {last.id} could not see everything, so it does not show that objects are gone: "
            f"{'; '.join(gaps)[:500]}. Correct that first, then: sexton check run {instance}"
        )
    return last


def _listing_gaps(evidence: Evidence) -> list[str]:
    """Return the reasons why the listings are incomplete."""
    gaps = [] if evidence.listings else ["no vault was listed"]
    for listing in evidence.listings:
        vault = f"vault {listing.vault}: "  # an error of the vault itself names it already
        gaps += [f"{vault}{error.removeprefix(vault)}" for error in listing.errors]
        missing = listing.parts - listing.ended
        if missing > 0:
            gaps.append(f"vault {listing.vault}: {missing} of {listing.parts} parts of its listing did not end")
    if evidence.listed_at is None:
        gaps.append("the listing did not end")
    return gaps


def _live_side_gaps(evidence: Evidence) -> list[str]:
    """Return the reasons why the live side is incomplete, or was read too early."""
    gaps = []
    if evidence.live is None:
        gaps.append("the live side was not read to its end")
    elif evidence.live + evidence.prefixes == 0:
        gaps.append("no live file was seen: an empty live side would make every object an orphan")
    else:
        gaps += [
            f"vault {listing.vault}: {listing.objects:,} objects, and no record names a live one in it"
            for listing in evidence.listings
            if listing.objects and not listing.live
        ]
    live_from, listed_at = evidence.live_from, evidence.listed_at
    if live_from is not None and listed_at is not None and live_from < listed_at:
        gaps.append("the live side is older than the listing: an object written in between looks like an orphan")
    return gaps


def _shrinkage(evidence: Evidence, before: PreviousRun) -> list[str]:
    """Return for which vaults the run saw far less than the last whole run. A part of a listing is not compared."""
    gaps = []
    for listing in evidence.listings:
        if listing.whole:
            gaps += _shrunk(listing.vault, "objects", listing.objects, before.objects.get(listing.vault, 0))
            gaps += _named_less(listing, before.named_share.get(listing.vault, 0.0))
        if evidence.live is not None:
            gaps += _shrunk(listing.vault, "live files", listing.live, before.live.get(listing.vault, 0))
    return gaps


def _shrunk(vault: str, noun: str, now: int, before: int) -> list[str]:
    if now >= before * SHRINK_RATIO:
        return []
    return [
        f"vault {vault}: {now:,} {noun} are far below the {before:,} of the last whole run; "
        "if correct: sexton check rebase INSTANCE --reason TEXT"
    ]


def _named_less(listing: Listing, before: float) -> list[str]:
    share = listing.named_share
    if share is None or share >= before * SHRINK_RATIO:
        return []
    return [
        f"vault {listing.vault}: records name {share:.0%} of {listing.objects:,} objects, far below the "
        f"{before:.0%} of the last whole run; if correct: sexton check rebase INSTANCE --reason TEXT"
    ]


def with_live_counts(seen: Evidence, at: int, files: Mapping[str, int], prefixes: Mapping[str, int]) -> Evidence:
    """Return the evidence, completed with the counts of the live side.

    Args:
        seen: the evidence so far.
        at: when the live side was read, ms since 1970.
        files: vault → live files.
        prefixes: vault → live prefixes.
    """
    listings = tuple(
        listing.model_copy(update={"live": files.get(listing.vault, 0) + prefixes.get(listing.vault, 0)})
        for listing in seen.listings
    )
    listed_vaults = {listing.vault for listing in seen.listings}
    foreign_vaults = ", ".join(sorted((files.keys() | prefixes.keys()) - listed_vaults))[:200]
    notes = (f"live rows name vaults that the instance does not have: {foreign_vaults}",) if foreign_vaults else ()
    if prefixes:
        notes = (*notes, PREFIXES_NOTE.format(prefixes=sum(prefixes.values())))
    totals = {"live_from": at, "live": sum(files.values()), "prefixes": sum(prefixes.values())}
    return seen.model_copy(update={**totals, "listings": listings, "notes": notes})


def with_unnamed_counts(seen: Evidence, unnamed: Mapping[str, int]) -> Evidence:
    """Return the evidence with the numbers of objects that no record names, by vault, if they were looked for."""
    if not seen.inverted:
        return seen
    listings = tuple(listing.model_copy(update={"unnamed": unnamed.get(listing.vault, 0)}) for listing in seen.listings)
    return seen.model_copy(update={"listings": listings})


def latest_judged_write(cutoff: int, grace_seconds: int) -> str:
    """Return the latest ``ListedObject.written`` of an object that is judged: by then its record must exist.

    Args:
        cutoff: when the run began, ms since 1970.
        grace_seconds: younger objects are not judged; at least ``GRACE_FLOOR_SECONDS`` apply.
    """
    until = cutoff // 1000 - max(grace_seconds, GRACE_FLOOR_SECONDS)
    return dt.datetime.fromtimestamp(until, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def inventory_at(parts: Iterable[VaultPart]) -> int | None:
    """Return as of when parts are that are files of an inventory; None: they are listed now."""
    return next((part.report.as_of for part in parts if part.report is not None), None)


def inventory_fault(at: int | None, cutoff: int) -> str:
    """Return why an inventory proves nothing: most of what an old one says could be wrong; empty: it does, or is none.

    ``at``: as of when it is; ``cutoff``: of the run; both in ms since 1970.
    """
    if at is None or at >= cutoff - MOST_INVENTORY_MS:
        return ""
    return f"its inventory is of {in_words(at)}, older than {MOST_INVENTORY_MS // 86_400_000} days"


def latest_in_inventory(part: VaultPart, grace_seconds: int) -> str:
    """Return the latest write of an object that is judged by an inventory; empty: the part is none of it."""
    return "" if part.report is None else latest_judged_write(part.report.as_of, grace_seconds)


def in_words(instant: int) -> str:
    """Return an instant, ms since 1970."""
    return f"{dt.datetime.fromtimestamp(instant / 1000, dt.UTC):%Y-%m-%d %H:%M} UTC"


def is_stored(type_: FindingType, number: int) -> bool:
    """Return whether a run stores its finding with this number, from 1, of a type."""
    return type_ is not FindingType.LOST or number <= MOST_LOST


def notes_on_lost(found: Mapping[str, int]) -> list[str]:
    """Return a note if a run counted more LOST findings than it stored."""
    lost = found.get(FindingType.LOST, 0)
    if is_stored(FindingType.LOST, lost):
        return []
    return [f"{lost:,} live rows name no object, and {MOST_LOST:,} or more of them are stored as findings"]


def findings_of(rows: Iterable[Mapping[str, Any]], pattern: str, counts: Counter[str]) -> list[Discrepancy]:
    """Return the findings for rows of a comparison that the run stores; add all of them to the counts, by type.

    Columns are fields of ``Discrepancy``. No record names an object without a type: it is an orphan only if its key has
    the form of owners' files. ``pattern``: see ``LiveSide.pattern``.
    """
    stored = []
    for row in rows:
        named = {name: value for name, value in row.items() if value is not None}
        if "type" not in named:
            match = re.fullmatch(pattern, row["key"]) if pattern and "\0" not in row["key"] else None
            named["type"] = FindingType.UNKNOWN_KIND if match is None else FindingType.ORPHAN
            named["record"] = "" if match is None else match.groupdict().get("record") or ""
        finding = Discrepancy(**named)
        counts[finding.type] += 1
        if is_stored(finding.type, counts[finding.type]):
            stored.append(finding)
    return stored


def still_disagrees(
    finding: Finding, entries: Iterable[LiveEntry], objects: Mapping[tuple[str, str], ListedObject]
) -> bool:
    """Return whether a record and its object still disagree as the finding says.

    Args:
        finding: a LOST or SIZE_MISMATCH finding, or one of an object that an inventory names and no record.
        entries: the entries that its record names now.
        objects: the objects that exist now, by vault and key; under a prefix, any object below it.
    """
    stored = objects.get((finding.vault, finding.key))
    if finding.type in UNNAMED:
        return stored is not None and (stored.bytes, stored.etag) == (finding.size, finding.etag)
    name = canonical(finding.key)
    live_entries = [e for e in entries if e.live and e.vault == finding.vault and e.name == name]
    if stored is None or not live_entries:
        return bool(live_entries)
    return all(entry.bytes is not None and entry.bytes != stored.bytes for entry in live_entries)


def listed_objects(run: Run | None) -> int:
    """Return how many objects a run listed, young ones included."""
    listings: tuple[Listing, ...] = run.evidence.listings if run is not None and run.evidence is not None else ()
    return sum(listing.objects + listing.young for listing in listings)


def repairable(finding: Finding) -> bool:
    """Return whether a repair may act on a finding: it is confirmed, open, and its type says what would be right."""
    is_reserved = finding.key.startswith(RESERVED_PREFIX)
    has_remedy = finding.type in (FindingType.ORPHAN, FindingType.LOST)
    return has_remedy and finding.state is FindingState.OPEN and finding.confirmed_at is not None and not is_reserved


def reports_loss_too_late(interval_seconds: int, versions_days: int) -> bool:
    """Return whether a loss may be reported with less than ``REACTION_DAYS`` left to undo it, or none.

    Args:
        interval_seconds: from one check to the next.
        versions_days: days for which the store keeps the versions of deleted objects.
    """
    return interval_seconds > (versions_days - REACTION_DAYS) * 86_400


NAMED_IDS = 100
"""Ids that are named of each kind of difference; the others are only counted."""
IDS_A_HEARTBEAT = 10_000


def compare_peer(
    kind: str,
    ids: Sequence[str],
    bounds: tuple[str, str],
    record_ids: Iterable[str],
    heartbeat: Heartbeat = lambda: None,
) -> PeerComparison:
    """Return the ids in a range that only a peer (a front end) has, and those that only the records have.

    Args:
        kind: kind of the records.
        ids: the peer's ids in the range. One with many ids sends them in order, range by range.
        bounds: the range begins above the first id, and ends with the second one; empty: unbounded.
        record_ids: the ids of the records in the range, each once, in order.
        heartbeat: called now and then.

    Raises:
        BadInput: an id lies outside of the range.
    """
    after, until = bounds
    if outside := [peer_id for peer_id in ids if peer_id <= after or (until and peer_id > until)]:
        raise BadInput(f"{outside[0]!r} is not beyond {after!r} and up to {until!r}")
    unknown, missing, missing_ids = set(ids), 0, list[str]()
    for n, record_id in enumerate(record_ids):
        if n % IDS_A_HEARTBEAT == 0:
            heartbeat()
        if record_id in unknown:
            unknown.remove(record_id)
            continue
        missing += 1
        if missing <= NAMED_IDS:
            missing_ids.append(record_id)
    return PeerComparison(
        kind=kind,
        unknown=len(unknown),
        unknown_ids=tuple(sorted(unknown)[:NAMED_IDS]),
        missing=missing,
        missing_ids=tuple(missing_ids),
    )
