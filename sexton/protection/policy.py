"""How long a protection keeps, what it covers, and what the names in it mean. Pure: ``now`` is an argument."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.protection.errors import Invalid, SoftDeleted
from sexton.protection.model import Item, Protection, ProtectionEnd, ProtectionSettings, ProtectionState
from sexton.storage.identity import Nowhere, resolve
from sexton.storage.model import VaultSpec
from sexton.storage.policy import check_key, check_listing

NAME_CHARACTERS = 200


def check_names(job: str, owner: str) -> None:
    """Refuse a protection that names no job or nobody to ask, or a job that would be no part of a URL: ``Invalid``."""
    if not 0 < len(job) <= NAME_CHARACTERS or not 0 < len(owner) <= NAME_CHARACTERS:
        raise Invalid(
            f"a protection names its job and its owner, in 1 to {NAME_CHARACTERS} characters each: somebody must "
            "be asked about it"
        )
    if not owner.isprintable():
        raise Invalid("the owner of a protection is named by what is printable: it is in logs and lists")
    if "/" in job or job in (".", "..") or not job.isprintable():
        raise Invalid(f"{job!r} cannot name a job: no '/', nothing that is not printable, neither '.' nor '..'")


def expiry(now: int, seconds: int | None, terms: ProtectionSettings) -> int:
    """Return when a protection ends that is asked for now (ms).

    Raises:
        Invalid: the time is not positive, or longer than protections may be asked for.
    """
    wanted = terms.ttl_seconds if seconds is None else seconds
    if not 0 < wanted <= terms.max_seconds:
        raise Invalid(
            f"a protection is asked for 1 to {terms.max_seconds} seconds (max_protection_seconds) at a time, "
            f"not for {wanted}; renew it while the job runs"
        )
    return now + wanted * 1_000


def renewed(
    protection: Protection, now: int, seconds: int | None, terms: ProtectionSettings, *, at_least: bool = False
) -> int:
    """Return when a protection ends that is renewed now: never earlier than before.

    ``at_least``: one that ends later than is asked for goes on as it is.

    Raises:
        SoftDeleted: its job has finished it.
        Invalid: it would end earlier, or too late.
    """
    if protection.state is ProtectionState.SOFT:
        raise SoftDeleted(f"the protection of job {protection.job} is finished; register another job")
    until = expiry(now, seconds, terms)
    if at_least:
        return max(until, protection.expires_at)
    if until < protection.expires_at:
        raise Invalid(
            f"the protection of job {protection.job} would end {(protection.expires_at - until) / 1_000:.0f} s "
            "earlier; to end it, finish or release it"
        )
    return until


def ended(protection: Protection, now: int, watermark: int | None, terms: ProtectionSettings) -> ProtectionEnd | None:
    """Return why a protection ends with the round that begins now, or None: it keeps what it covers."""
    if protection.state is not ProtectionState.SOFT:
        return ProtectionEnd.OVERDUE if now > protection.expires_at else None
    if watermark is None or protection.valid_ts is None:
        return ProtectionEnd.NO_WATERMARK
    if watermark > protection.valid_ts:
        return ProtectionEnd.PASSED
    finished = protection.finished_at if protection.finished_at is not None else protection.registered_at
    return ProtectionEnd.TOO_LONG if now - finished > terms.max_soft_hold_seconds * 1_000 else None


class Cover(NamedTuple):
    """Objects, and prefixes as one sorted list in which none begins with another; made by ``cover``."""

    objects: frozenset[tuple[str, str]]
    prefixes: tuple[tuple[str, bytes], ...]

    def covers(self, vault: str, key: str) -> bool:
        """Tell whether the object is one of them, or some prefix is one of its key, in bytes."""
        if (vault, key) in self.objects:
            return True
        wanted = key.encode()
        at = bisect_right(self.prefixes, (vault, wanted)) - 1
        return at >= 0 and self.prefixes[at][0] == vault and wanted.startswith(self.prefixes[at][1])


def cover(items: Iterable[Item]) -> Cover:
    """Return the items as something that can be asked: a prefix that a shorter one covers is left out."""
    objects: set[tuple[str, str]] = set()
    prefixes: list[tuple[str, bytes]] = []
    for vault, key, prefix in sorted(items, key=lambda item: (item.vault, item.key.encode())):
        if not prefix:
            objects.add((vault, key))
        elif not (prefixes and prefixes[-1][0] == vault and key.encode().startswith(prefixes[-1][1])):
            prefixes.append((vault, key.encode()))
    return Cover(frozenset(objects), tuple(prefixes))


def canonical(name: str, vaults: Mapping[str, VaultSpec], *, prefix: bool = False) -> Item:
    """Return what a job's name for an object (or prefix) means: ``VAULT/KEY``, or a URL of the vault's store.

    A leading ``/`` of the key is dropped; whether the object is there is found out when the protection is sealed.

    Raises:
        Invalid: it lies in no vault of the instance, or is no key.
    """
    try:
        vault, key = resolve(name, vaults)
    except Nowhere as e:
        raise Invalid(str(e)) from e
    try:
        (check_listing if prefix else check_key)(key)
    except BadInput as e:
        raise Invalid(f"{name!r}: {e}") from e
    return Item(vault, key, prefix)
