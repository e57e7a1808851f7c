"""Find what no comparison of objects with records shows: uploads, contradicting records, a front end that differs."""

from collections.abc import Callable, Iterator, Sequence

from sexton.check.model import CheckOrder, Discrepancy, FindingType, PeerComparison
from sexton.check.policy import latest_judged_write
from sexton.check.port import Heartbeat
from sexton.owners.port import Owner, OwnerSilent
from sexton.storage.model import VaultSpec
from sexton.storage.port import UnknownVault, VaultFault, Vaults

TYPES = (FindingType.UPLOAD, FindingType.RECORD, FindingType.FRONT_END)
"""The types that this module finds. Each run finds them again, also when a step is repeated."""
STALE_UPLOAD_SECONDS = 86_400
"""An unfinished upload older than this will hardly ever be finished."""
MEMORY_IDS = 10_000
"""Ids that a front end is asked for at once."""
CompareIds = Callable[[str, str, Sequence[str], tuple[str, str]], PeerComparison]


class OtherFindings:
    """Finds discrepancies of ``TYPES``. What cannot be read is noted, and older findings of its type stay."""

    def __init__(
        self,
        vaults: Vaults,
        vaults_of: Callable[[str], Sequence[VaultSpec]],
        owner: Owner,
        compare_ids: CompareIds,
    ) -> None:
        """Store the collaborators: see ``checker.CheckPorts``."""
        self._vaults, self._vaults_of = vaults, vaults_of
        self._owner, self._compare_ids = owner, compare_ids

    def discrepancies(
        self, order: CheckOrder, notes: list[str], unread: list[str], heartbeat: Heartbeat
    ) -> Iterator[Iterator[Discrepancy]]:
        """Yield the discrepancies of each type; add notes, and the types that were not read to their end."""
        yield self._stale_uploads(order, notes, unread, heartbeat)
        yield self._contradictions(order.instance, notes, unread)
        yield self._front_end(order.instance, notes, unread, heartbeat)

    def _contradictions(self, instance: str, notes: list[str], unread: list[str]) -> Iterator[Discrepancy]:
        """Yield the owner's records that contradict each other; add a note if it does not answer."""
        try:
            for kind, id_, text in self._owner.contradictions(instance):
                yield Discrepancy(type=FindingType.RECORD, vault="", key=f"{kind}/{id_}", detail=text)
        except OwnerSilent as e:
            unread.append(FindingType.RECORD)
            notes.append(f"not all records were compared with each other: {e}")

    def _front_end(
        self, instance: str, notes: list[str], unread: list[str], heartbeat: Heartbeat
    ) -> Iterator[Discrepancy]:
        """Yield the records about which the owner's front end and the records disagree; some of each range by name."""
        try:
            for kind in self._owner.memory_kinds(instance):
                after, is_end = "", False
                while not is_end:
                    heartbeat()
                    ids = self._owner.memory_ids(instance, kind, after, MEMORY_IDS)
                    is_end = len(ids) < MEMORY_IDS
                    until = "" if is_end else ids[-1]
                    yield from _front_end_findings(self._compare_ids(instance, kind, ids, (after, until)))
                    after = until
        except OwnerSilent as e:
            unread.append(FindingType.FRONT_END)
            notes.append(f"the memory of the front end was not compared with all records: {e}")

    def _stale_uploads(
        self, order: CheckOrder, notes: list[str], unread: list[str], heartbeat: Heartbeat
    ) -> Iterator[Discrepancy]:
        """Yield the uploads that were begun long ago and never finished; add a note for each vault at fault."""
        begun_before = latest_judged_write(order.run.cutoff, STALE_UPLOAD_SECONDS)
        for spec in self._vaults_of(order.instance):
            heartbeat()
            try:
                for upload in self._vaults.get(order.instance, spec.name).uploads(begun_before):
                    detail = f"begun {upload.written}, upload {upload.etag}"
                    yield Discrepancy(type=FindingType.UPLOAD, vault=spec.name, key=upload.key, detail=detail)
            except (VaultFault, UnknownVault) as e:
                unread.append(FindingType.UPLOAD)
                notes.append(f"unfinished uploads were not listed: {e}")


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
            yield Discrepancy(type=FindingType.FRONT_END, vault="", key=f"{comparison.kind}/{id_}", detail=detail)
