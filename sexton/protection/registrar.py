"""Register what a job copies: open, chunks, seal. What is being deleted, or is not there, is named.

Each step can be repeated: the same registration, chunk or seal again says what it said first.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import NAMED, Item, Protection, ProtectionState, Sealed
from sexton.protection.port import Register
from sexton.storage.port import Vault, Vaults

LISTED_TOGETHER = 20
"""So many objects of one folder are looked for by listing it; fewer are asked for one by one."""
PAGES_MORE = 4
"""A folder is listed for at most so many times the pages that what is looked for would fill."""
PAGE = 1_000
FAIL, REPORT = "fail", "report"


class Registrar:
    """Registrations for jobs, with the vaults to look for what they name."""

    def __init__(self, register: Register, vaults: Vaults) -> None:
        self._register, self._vaults = register, vaults

    def whole(
        self,
        wanted: Protection,
        items: Sequence[Item],
        seconds: int | None = None,
        filter_: Filter | None = None,
        on_missing: str = FAIL,
    ) -> Protection:
        """Register a set that fits one chunk, or a filter, and seal it. Raises as the three steps do."""
        self._register.open(wanted, seconds, filter_)
        if items:
            self.add(wanted.instance, wanted.job, 0, items)
        return self.seal(wanted.instance, wanted.job, on_missing=on_missing, filter_=filter_)

    def add(self, instance: str, job: str, number: int, items: Sequence[Item]) -> Sealed:
        """Register one chunk: kept from its commit on; then say what of it is being deleted or is not there.

        Raises:
            NotFound, Invalid: see ``Register.add``.
            VaultFault, UnknownVault: a vault cannot be asked; the rows keep what they cover, repeat the chunk.
        """
        items, its = list(dict.fromkeys(items)), self._register.find(instance, job)
        if not items:
            raise Invalid(f"chunk {number} of job {job} names nothing: it would protect nothing")
        if (told := self._register.add(instance, job, number, items, of=its.id)) is not None:
            return told
        self._register.part(instance)
        claimed = self._register.claimed(instance, job, items, of=its.id)
        deleted = set(claimed)
        missing = [i for i in self._missing(instance, items) if (i.vault, i.key) not in deleted]
        named = [f"{vault}/{key}: claimed" for vault, key in claimed]
        named += [f"{i.vault}/{i.key}: {'nothing below it' if i.prefix else 'not there'}" for i in missing]
        sum_ = Sealed(objects=len(items), claimed=len(claimed), missing=len(missing), named=tuple(named[:NAMED]))
        return self._register.tell(instance, job, number, sum_, of=its.id)

    def seal(
        self,
        instance: str,
        job: str,
        *,
        on_missing: str = FAIL,
        filter_: Filter | None = None,
        count: int | None = None,
    ) -> Protection:
        """Make the registration a protection.

        Args:
            instance: of the registration.
            job: of the registration.
            on_missing: ``fail``: what is being deleted or not there ends the registration; ``report``: it is named.
            filter_: what was registered, where that is a filter: nobody can look for what it names.
            count: how many chunks there must be; None: as many as there are.

        Raises:
            NotFound: no such registration.
            Invalid: something is missing; or a chunk is, or is still looked for.
        """
        there = self._register.find(instance, job)
        if there.state is not ProtectionState.OPEN:  # said once, and what was reported then ends nothing now
            return there
        told = self._register.told(instance, job, of=there.id)
        lacking = [n for n in range(len(told) if count is None else count) if told.get(n) is None]
        if lacking or (count is not None and len(told) != count):
            first = lacking[0] if lacking else count
            raise Invalid(
                f"chunk {first} of job {job} is not registered as it should be; send each, from 0 to the last"
            )
        chunks = [t for t in told.values() if t is not None]
        if not chunks and filter_ is None:
            raise Invalid(f"the protection of job {job} has no chunk: it would protect nothing")
        sealed = Sealed(
            objects=sum(t.objects for t in chunks),
            verified=filter_ is None,
            claimed=sum(t.claimed for t in chunks),
            missing=sum(t.missing for t in chunks),
            named=tuple(islice((name for t in chunks for name in t.named), NAMED)),
        )
        self._register.part(instance)
        if filter_ is not None:
            hits = self._hits(instance, filter_)
            sealed = sealed.model_copy(update={"claimed": len(hits), "named": tuple(hits[:NAMED])})
        if on_missing == FAIL and sealed.verified and sealed.claimed + sealed.missing:
            if not self._register.give_up(there, "not all of it is there"):
                return self._register.find(instance, job)  # somebody has sealed it meanwhile, or began anew
            raise Invalid(
                f"{sealed.claimed} objects of job {job} are being deleted and {sealed.missing} are not there: "
                f"{'; '.join(sealed.named[:10])}"
            )
        return self._register.seal(instance, job, sealed, of=there.id)

    def _hits(self, instance: str, filter_: Filter) -> list[str]:
        """Return what is being deleted and may be one of the filter's: its job looks whether it is."""
        files = (file for page in self._register.claimed_files(instance) for file in page)
        return [f"{vault}/{key}: claimed" for vault, key in files if filter_.covers(vault, key)]

    def _missing(self, instance: str, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the objects that are not in their vaults, and prefixes below which nothing is."""
        of: dict[str, list[Item]] = {}
        for item in items:
            of.setdefault(item.vault, []).append(item)
        for name, wanted in of.items():
            vault = self._vaults.get(instance, name)
            there = _there(vault, [item.key for item in wanted if not item.prefix])
            yield from (item for item in wanted if not item.prefix and item.key not in there)
            yield from (item for item in wanted if item.prefix and not any(vault.list(item.key)))
            self._vaults.get(instance, name)  # a disk unmounted meanwhile shows nothing at all


def _there(vault: Vault, keys: Sequence[str]) -> set[str]:
    folders: dict[str, set[str]] = {}
    for key in keys:
        folders.setdefault(key.rpartition("/")[0], set()).add(key)
    there: set[str] = set()
    alone: list[str] = []
    for folder, its in folders.items():
        if not folder or len(its) < LISTED_TOGETHER:
            alone += its
            continue
        looked = PAGES_MORE * (len(its) // PAGE + 1)
        found: set[str] = set()
        for page in vault.list(f"{folder}/"):
            found.update(o.key for o in page if o.key in its)
            looked -= 1
            if not looked or len(found) == len(its):
                break
        there |= found
        alone += its - found if not looked else ()
    return there | {o.key for o in vault.stat(sorted(alone))} if alone else there
