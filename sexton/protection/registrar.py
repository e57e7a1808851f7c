"""Register the objects that a job copies: open, add chunks, seal. Objects that cannot be protected are named.

Each step can be repeated: a repeated registration, chunk or seal returns its first result.
"""

from collections import defaultdict
from collections.abc import Sequence

from sexton.protection.filter import Filter
from sexton.protection.model import NAMED, Invalid, Item, JobQuotaExceeded, Protection, ProtectionState, Sealed
from sexton.protection.policy import sealing
from sexton.protection.sql.store import ProtectionStore
from sexton.storage.port import Vault, Vaults

LISTED_TOGETHER = 20
"""From this many objects of one folder on, the folder is listed; fewer are looked up one by one."""
MAX_PAGE_FACTOR = 4
"""A folder is listed for at most this many times the pages that the objects to find would fill."""
PAGE_KEYS = 1_000
"""Keys of one page of a listing."""
FAIL, REPORT = "fail", "report"
"""Values of ``on_missing``."""


class Registrar:
    """Registers protections, and looks up their objects in the vaults."""

    def __init__(self, register: ProtectionStore, vaults: Vaults) -> None:
        self._register, self._vaults = register, vaults

    def for_job(self) -> "Registrar":
        """Return a registrar for callers that are jobs, which may do less than operators."""
        return Registrar(self._register.for_job(), self._vaults)

    def register_at_once(
        self,
        registration: Protection,
        items: Sequence[Item],
        seconds: int | None = None,
        filter_: Filter | None = None,
        on_missing: str = FAIL,
    ) -> Protection:
        """Register items that fit one chunk, or a filter, and seal the protection. Raises as the three steps do."""
        opened = self._register.open(registration, seconds, filter_)
        if items:
            try:
                self.add(registration.instance, registration.job, 0, items)
            except JobQuotaExceeded:
                self._register.give_up(opened, "it would exceed the quota of its job")
                raise
        return self.seal(registration.instance, registration.job, on_missing=on_missing, filter_=filter_)

    def add(self, instance: str, job: str, number: int, items: Sequence[Item]) -> Sealed:
        """Register one chunk, and return which of its objects are being deleted or do not exist.

        From the commit of the chunk on, its objects are no longer claimed.

        Raises:
            ProtectionNotFound, Invalid: see ``ProtectionStore.add``.
            VaultFault, UnknownVault: a vault does not answer. The stored rows block deletion; repeat the chunk.
            JobQuotaExceeded: the job would protect too much. Chunks that are stored already block deletion until the
                registration is released or its time is over.
        """
        items = list(dict.fromkeys(items))
        registration = self._register.find(instance, job)
        if not items:
            raise Invalid(f"chunk {number} of job {job} names nothing, so it would protect nothing")
        first_result = self._register.add(registration, number, items)
        if first_result is not None:
            return first_result
        self._register.wait_for_claims(instance)
        claimed = self._register.find_claimed(registration, items)
        claimed_names = set(claimed)
        absent, size = self._look_up(instance, items)
        missing = [item for item in absent if (item.vault, item.key) not in claimed_names]
        names = [f"{vault}/{key}: claimed" for vault, key in claimed]
        names += [f"{item.vault}/{item.key}: {'nothing below it' if item.prefix else 'not there'}" for item in missing]
        result = Sealed(
            objects=len(items), bytes=size, claimed=len(claimed), missing=len(missing), named=tuple(names[:NAMED])
        )
        return self._register.store_result(registration, number, result)

    def seal(
        self,
        instance: str,
        job: str,
        *,
        on_missing: str = FAIL,
        filter_: Filter | None = None,
        count: int | None = None,
    ) -> Protection:
        """Make the registration an active protection.

        ``on_missing``: ``fail``: objects that are being deleted or do not exist end the registration; ``report``: they
        are named in its result. ``filter_``: what was registered, if it was one: its objects cannot be looked up.
        ``count``: how many chunks there must be; None: as many as there are.

        Raises:
            ProtectionNotFound: there is no such registration.
            Invalid: a chunk is missing or not finished; or objects are missing, and ``on_missing`` is ``fail``.
        """
        registration = self._register.find(instance, job)
        if registration.state is not ProtectionState.OPEN:  # repeated: objects missing then end nothing now
            return registration
        results = self._register.results(registration)
        sealed = sealing(job, results, count, is_filter=filter_ is not None)
        self._register.wait_for_claims(instance)
        if filter_ is not None:
            # The job must check whether these are in the filter.
            claimed = [f"{vault}/{name}: claimed" for vault, name in self._register.find_covered(instance, filter_)]
            sealed = sealed.model_copy(update={"claimed": len(claimed), "named": tuple(claimed[:NAMED])})
        if on_missing != FAIL or not sealed.verified or not sealed.claimed + sealed.missing:
            return self._register.seal(registration, sealed)
        if not self._register.give_up(registration, "not all of its objects exist"):
            return self._register.find(instance, job)  # sealed meanwhile, or the job began another registration
        raise Invalid(
            f"{sealed.claimed} objects of job {job} are being deleted and {sealed.missing} do not exist: "
            f"{'; '.join(sealed.named[:10])}"
        )

    def _look_up(self, instance: str, items: Sequence[Item]) -> tuple[list[Item], int]:
        """Return the objects that do not exist and prefixes without objects, and the bytes of existing objects."""
        missing: list[Item] = []
        total = 0
        items_by_vault: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            items_by_vault[item.vault].append(item)
        for vault_name, vault_items in items_by_vault.items():
            vault = self._vaults.get(instance, vault_name)
            sizes = _existing_sizes(vault, [item.key for item in vault_items if not item.prefix])
            missing += [item for item in vault_items if not item.prefix and item.key not in sizes]
            missing += [item for item in vault_items if item.prefix and not any(vault.list(item.key))]
            total += sum(sizes.values())
            self._vaults.get(instance, vault_name)  # verified again: a disk unmounted meanwhile shows no object
        return missing, total


def _existing_sizes(vault: Vault, keys: Sequence[str]) -> dict[str, int]:
    """Return key → bytes of those that exist, by listing folders with many of them and looking up the others."""
    keys_by_folder: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        keys_by_folder[key.rpartition("/")[0]].add(key)
    existing: dict[str, int] = {}
    others: list[str] = []
    for folder, folder_keys in keys_by_folder.items():
        if folder and len(folder_keys) >= LISTED_TOGETHER:
            max_pages = MAX_PAGE_FACTOR * (len(folder_keys) // PAGE_KEYS + 1)
            for number, page in enumerate(vault.list(f"{folder}/"), start=1):
                existing |= {listed.key: listed.bytes for listed in page if listed.key in folder_keys}
                if number == max_pages or folder_keys <= existing.keys():
                    break
            else:  # what a complete listing lacks does not exist
                continue
        others += folder_keys - existing.keys()
    return existing | {found.key: found.bytes for found in vault.stat(sorted(others))}
