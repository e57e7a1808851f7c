"""Run the steps of a check. Each may be repeated; a confirmation counts once the last one found the run whole.

Everyone who reaches Temporal can order a step. So a step takes the run, its cutoff and its evidence from the row, never
from the order.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sexton.check.model import (
    CheckOrder,
    CheckReport,
    CheckRequest,
    CheckSettings,
    Compare,
    ConcludeOrder,
    Discrepancy,
    Evidence,
    FindingType,
    Heartbeat,
    OpenedCheck,
    PeerComparison,
    Run,
)
from sexton.check.object_lookup import existing, existing_below, keys_by_vault
from sexton.check.policy import (
    REACTION_DAYS,
    UNNAMED,
    compare_peer,
    in_words,
    latest_judged_write,
    listed_objects,
    notes_on_lost,
    reports_loss_too_late,
    still_disagrees,
)
from sexton.check.sql.live_side import LiveSide
from sexton.check.sql.repair import Orphans
from sexton.check.sql.store import CHECKED_TWICE, CheckStore
from sexton.kernel.errors import BadInput
from sexton.kernel.live import Live
from sexton.marks.live import LiveEntry, names_prefix
from sexton.operators.registry.store import Registry
from sexton.owners.plugins import FrontEnds
from sexton.owners.port import NoLiveSide, Owner, OwnerSilent
from sexton.storage.port import UnknownVault, VaultFault, Vaults

PAGE_FINDINGS = 500
"""Findings that are stored, or checked a second time, in one page."""
MAX_REMARKS, REMARK_CHARACTERS = 100, 500
"""Errors, and notes, of workflows that a run stores, and the characters of each."""
UNCOMPARED = (FindingType.UPLOAD, FindingType.RECORD, FindingType.FRONT_END)
"""The types that no comparison of objects with records shows. Each second check counts them anew."""
STALE_UPLOAD_SECONDS = 86_400
"""An unfinished upload older than this will hardly ever be finished."""
MEMORY_IDS = 10_000
"""Ids that a front end is asked for at once."""


class CheckPorts(NamedTuple):
    """The collaborators of a checker."""

    runs: CheckStore
    live: LiveSide
    vaults: Vaults
    registry: Registry
    owner: Owner
    front_ends: FrontEnds
    orphans: Orphans


class Checker:
    """Runs the steps of checks in a worker. Safe for several instances at once."""

    def __init__(self, ports: CheckPorts, settings: CheckSettings | Live[CheckSettings]) -> None:
        self._runs, self._live, self._vaults = ports.runs, ports.live, ports.vaults
        self._registry, self._owner, self._orphans = ports.registry, ports.owner, ports.orphans
        self._front_ends = ports.front_ends
        self._settings = Live.of(settings)

    def begin(self, request: CheckRequest, run: str) -> OpenedCheck:
        """Begin a run; a repeated attempt continues the same one.

        Args:
            request: the instance to check.
            run: the id of the workflow run.

        Raises:
            BadInput: the instance has no vault.
        """
        if not self._registry.vaults(request.instance):
            raise BadInput(f"instance {request.instance} has no vault to check; add one with: sexton vault add")
        settings = self._settings(request.instance)
        # A first check counts nothing beforehand: listing ``heavy_objects`` objects costs less than counting records.
        heavy = listed_objects(self._runs.last_ended(request.instance)) >= settings.heavy_objects
        order = CheckOrder(
            instance=request.instance,
            run=self._runs.begin(request.instance, run, request.requested_by[:REMARK_CHARACTERS]),
            grace_seconds=settings.grace_seconds,
            inverted=settings.inverted,
            most_objects=None if heavy else settings.heavy_objects,
        )
        return OpenedCheck(order=order, heavy=heavy)

    def compare(self, how: Compare, order: CheckOrder, heartbeat: Heartbeat) -> Evidence:
        """Compare objects with records in the given way; store and return what was seen. Raise ``UnknownCheck``."""
        order = self._checked(order)
        try:
            self._live.as_of(order.instance, heartbeat)
        except (NoLiveSide, OwnerSilent) as e:  # a listing would be useless
            evidence = Evidence(cutoff=order.run.cutoff, listings=(), errors=(str(e),))
        else:
            evidence = how.compare(order, self._registry.vaults(order.instance), heartbeat)
            evidence = evidence.model_copy(update={"inverted": order.inverted})
        self._runs.store_evidence(order.run, evidence)
        return evidence

    def check_again(self, order: CheckOrder, reported: Evidence, heartbeat: Heartbeat) -> Evidence:
        """Check LOST and SIZE_MISMATCH findings a second time; find unfinished uploads and contradicting records.

        Returns:
            The stored evidence, with the notes of the workflow (``reported``) and the counts and notes of this step.

        Raises:
            UnknownCheck: there is no such run of the instance.
        """
        order = self._checked(order)
        evidence = _with_remarks(_evidence_of(order.run), reported)
        too_late, notes = self._vaults_reporting_too_late(order, heartbeat)
        read = {listing.vault: at for listing in evidence.listings if (at := listing.inventory_at) is not None}
        notes += [
            f"vault {vault} was not listed: its inventory of {in_words(at)} was read" for vault, at in read.items()
        ]
        try:
            self._verify_findings(order.run, read, heartbeat)
        except (VaultFault, UnknownVault, OwnerSilent, NoLiveSide) as e:
            notes.append(f"not all findings were checked a second time: {e}")
        counts = {type_: n for type_, n in evidence.found.items() if type_ not in UNCOMPARED}
        notes += notes_on_lost(counts)
        unread: list[str] = []
        for discrepancies in (
            self._stale_uploads(order, notes, unread, heartbeat),
            self._contradictions(order.instance, notes, unread),
            self._front_end(order.instance, notes, unread, heartbeat),
        ):
            while page := list(islice(discrepancies, PAGE_FINDINGS)):
                for discrepancy in page:
                    counts[discrepancy.type] = counts.get(discrepancy.type, 0) + 1
                heartbeat()
                self._runs.store_findings(order.run, page)
        all_notes = tuple(dict.fromkeys((*evidence.notes, *notes)))
        evidence = evidence.model_copy(
            update={"found": counts, "notes": all_notes, "too_late": tuple(too_late), "unread": tuple(unread)}
        )
        self._runs.store_evidence(order.run, evidence)
        return evidence

    def conclude(self, order: ConcludeOrder) -> CheckReport:
        """End the run by its stored evidence and return its report. Raise ``UnknownCheck``."""
        run = self._runs.stored(order.run)
        if not self._runs.conclude(run, _with_remarks(_evidence_of(run), order.evidence)):
            # raises GuardBusy while the guard is taken: this step is then tried again
            self._orphans.remove_refuted_marks(run)
        self._runs.forget_old(run.instance)
        return self._runs.report(run.id)

    def _checked(self, order: CheckOrder) -> CheckOrder:
        """Return an order with the run as stored, and with no shorter grace than the settings demand."""
        run = self._runs.stored(order.run)
        settings = self._settings(run.instance)
        grace_seconds = max(order.grace_seconds, settings.grace_seconds)
        own = {"instance": run.instance, "run": run, "grace_seconds": grace_seconds, "inverted": settings.inverted}
        return order.model_copy(update=own)

    def _verify_findings(self, run: Run, by_inventory: Collection[str], heartbeat: Heartbeat) -> None:
        """Read the record and the object of each LOST or SIZE_MISMATCH finding again; confirm or refute it.

        ``by_inventory``: vaults that were not listed: there the objects that no record names are looked up, too.
        """
        after, types = 0, (*CHECKED_TWICE, *(UNNAMED if by_inventory else ()))
        while seen := self._runs.unresolved(run, types, after, PAGE_FINDINGS):
            after = seen[-1].id
            heartbeat()
            unnamed = [f for f in seen if f.type in UNNAMED and f.vault in by_inventory]
            recorded = [f for f in seen if f.type in CHECKED_TWICE]
            entries: dict[str, list[LiveEntry]] = defaultdict(list)
            for entry in self._owner.live_entries_of(run.instance, sorted({finding.record for finding in recorded})):
                entries[entry.record].append(entry)
            prefixes = [f for f in recorded if names_prefix(f.key, f.expected)]
            files = [*unnamed, *(f for f in recorded if not names_prefix(f.key, f.expected))]
            objects = existing(self._vaults, run.instance, keys_by_vault(files), heartbeat)
            objects |= existing_below(self._vaults, run.instance, keys_by_vault(prefixes), heartbeat)
            disagree = {f.id: still_disagrees(f, entries[f.record], objects) for f in (*prefixes, *files)}
            self._runs.resolve(run, disagree)

    def _vaults_reporting_too_late(self, order: CheckOrder, heartbeat: Heartbeat) -> tuple[list[str], list[str]]:
        """Return the vaults in which a loss may be reported after its versions are deleted, and notes about it."""
        too_late: list[str] = []
        notes: list[str] = []
        interval_seconds = self._settings(order.instance).interval_seconds
        for spec in self._registry.vaults(order.instance):
            heartbeat()
            try:
                days = self._vaults.get(order.instance, spec.name).versions_days()
            except (VaultFault, UnknownVault) as e:
                notes.append(f"it is unknown how long object versions are kept: {e}")
                continue
            if days is not None and reports_loss_too_late(interval_seconds, days):
                too_late.append(spec.name)
                hours = interval_seconds / 3600
                # Where the versions are gone before an operator can react, no interval is short enough.
                oftener = "" if days <= REACTION_DAYS else ", or lower check.check_object_interval_seconds"
                notes.append(
                    f"vault {spec.name} keeps versions for {days} days: with a check every {hours:g} h a loss may be "
                    f"reported too late to undo it; keep versions longer{oftener}"
                )
        return too_late, notes

    # What no comparison of objects with records shows. What cannot be read is noted; older findings of its type stay.

    def _contradictions(self, instance: str, notes: list[str], unread: list[str]) -> Iterator[Discrepancy]:
        """Yield the owner's records that contradict each other; add a note if it does not answer."""
        try:
            for kind, id_, text in self._owner.contradictions(instance):
                record = f"{kind}/{id_}"
                yield Discrepancy(type=FindingType.RECORD, vault="", key=record, record=record, detail=text)
        except OwnerSilent as e:
            unread.append(FindingType.RECORD)
            notes.append(f"not all records were compared with each other: {e}")

    def _front_end(
        self, instance: str, notes: list[str], unread: list[str], heartbeat: Heartbeat
    ) -> Iterator[Discrepancy]:
        """Yield the records about which the owner's front end and the records disagree; some of each range by name."""
        try:
            for kind in self._front_ends.kinds(instance):
                after, is_end = "", False
                while not is_end:
                    heartbeat()
                    ids = self._front_ends.ids(instance, kind, after, MEMORY_IDS)
                    is_end = len(ids) < MEMORY_IDS
                    until = "" if is_end else ids[-1]
                    records = self._owner.record_ids(instance, kind, after, until)
                    yield from _front_end_findings(compare_peer(kind, ids, (after, until), records, heartbeat))
                    after = until
        except (OwnerSilent, BadInput) as e:  # or there are no records of such a kind
            unread.append(FindingType.FRONT_END)
            notes.append(f"the memory of the front end was not compared with all records: {e}")

    def _stale_uploads(
        self, order: CheckOrder, notes: list[str], unread: list[str], heartbeat: Heartbeat
    ) -> Iterator[Discrepancy]:
        """Yield the uploads that were begun long ago and never finished; add a note for each vault at fault."""
        begun_before = latest_judged_write(order.run.cutoff, STALE_UPLOAD_SECONDS)
        for spec in self._registry.vaults(order.instance):
            heartbeat()
            try:
                for upload in self._vaults.get(order.instance, spec.name).uploads(begun_before):
                    detail = f"begun {upload.written}, upload {upload.etag}"
                    yield Discrepancy(type=FindingType.UPLOAD, vault=spec.name, key=upload.key, detail=detail)
            except (VaultFault, UnknownVault) as e:
                unread.append(FindingType.UPLOAD)
                notes.append(f"unfinished uploads were not listed: {e}")


def _evidence_of(run: Run) -> Evidence:
    return run.evidence or Evidence(cutoff=run.cutoff, listings=(), errors=("its comparison did not end",))


def _with_remarks(stored: Evidence, reported: Evidence) -> Evidence:
    """Return the stored evidence with the errors and notes of a workflow, which can only make it prove less."""
    errors, notes = _new_texts(reported.errors, stored.errors), _new_texts(reported.notes, stored.notes)
    return stored.model_copy(update={"errors": (*errors, *stored.errors), "notes": (*stored.notes, *notes)})


def _new_texts(reported: Sequence[str], stored: Sequence[str]) -> list[str]:
    """Return the texts that are not stored, so many that a run has few of them, however often they are sent."""
    known = frozenset(stored)
    new = dict.fromkeys(text[:REMARK_CHARACTERS] for text in reported if text not in known)
    return [text for text in new if text not in known][: max(0, MAX_REMARKS - len(stored))]


def _front_end_findings(comparison: PeerComparison) -> Iterator[Discrepancy]:
    """Yield a discrepancy for each id that a comparison names."""
    only_in_memory = "the front end has it in memory, and there is no live record"
    only_in_records = "it is a live record, and the front end does not have it in memory"
    for ids, count, text in (
        (comparison.unknown_ids, comparison.unknown, only_in_memory),
        (comparison.missing_ids, comparison.missing, only_in_records),
    ):
        detail = f"{text}; so are {count - len(ids):,} others beside it" if count > len(ids) else text
        for id_ in ids:
            record = f"{comparison.kind}/{id_}"
            yield Discrepancy(type=FindingType.FRONT_END, vault="", key=record, record=record, detail=detail)
