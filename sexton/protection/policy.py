"""Decide how long a protection lasts, what it covers, and whether it may be sealed. Pure: ``now`` is an argument."""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import islice

from sexton.kernel.errors import BadInput
from sexton.protection.filter import Filter
from sexton.protection.model import (
    NAMED,
    Invalid,
    Item,
    JobQuotaExceeded,
    JobUsage,
    Protection,
    ProtectionEnd,
    ProtectionSettings,
    ProtectionState,
    Sealed,
    SoftDeleted,
)
from sexton.storage.kinds import NotInAnyVault, resolve
from sexton.storage.model import VaultSpec
from sexton.storage.policy import check_key, check_listing

NAME_CHARACTERS = 200
JOB_FILTER_BYTES = 2 << 20
JOB_FILTER_SHARE = 0.1
"""The largest share of all keys, thus of false positives, of a filter that a job's own token registers."""


def check_names(job: str, owner: str) -> None:
    """Check the names of a protection.

    Raises:
        Invalid: a name is empty, too long or not printable, or the job cannot be part of a URL.
    """
    if not 0 < len(job) <= NAME_CHARACTERS or not 0 < len(owner) <= NAME_CHARACTERS:
        raise Invalid(
            f"a protection must name its job and its owner (whom to ask about it), in 1 to {NAME_CHARACTERS} "
            "characters each"
        )
    if not owner.isprintable():
        raise Invalid("the owner of a protection must consist of printable characters: it is shown in logs and lists")
    if "/" in job or job in (".", "..") or not job.isprintable():
        raise Invalid(f"{job!r} cannot name a job: use printable characters without '/', and neither '.' nor '..'")


def job_of(run: str) -> str:
    """Return the job of a run, which is named ``JOB:RUN``; quotas count all runs of a job together."""
    return run.partition(":")[0]


def check_quota(job: str, usage: JobUsage, settings: ProtectionSettings) -> None:
    """Raise ``JobQuotaExceeded`` if a job uses more than its quota. ``usage``: with what it wants to add."""
    of_job = f"job {job_of(job)} and its runs"
    if usage.protections > settings.job_max_protections:
        raise JobQuotaExceeded(
            f"{of_job} have {usage.protections - 1} protections, finished ones included, and may have "
            f"{settings.job_max_protections}; wait for them to end, or {_raised('job_max_protections')}"
        )
    if usage.objects > settings.job_max_objects:
        raise JobQuotaExceeded(
            f"{of_job} would protect {usage.objects:,} objects and prefixes, and may protect "
            f"{settings.job_max_objects:,}; register fewer at a time, or {_raised('job_max_objects')}"
        )
    if usage.bytes > settings.job_max_bytes:
        raise JobQuotaExceeded(
            f"{of_job} would protect {usage.bytes:,} bytes, and may protect {settings.job_max_bytes:,}; register "
            f"fewer objects at a time, or {_raised('job_max_bytes')}"
        )


def check_age(job: str, registered_at: int, until: int, settings: ProtectionSettings) -> None:
    """Raise ``JobQuotaExceeded`` if a job's own token extends a protection further than to its greatest age."""
    if until > latest_end(registered_at, settings):
        raise JobQuotaExceeded(
            f"the protection of job {job} would end more than {settings.job_max_age_seconds:,} s after its "
            f"registration; an operator extends it: sexton protection renew {job}, or {_raised('job_max_age_seconds')}"
        )


def latest_end(registered_at: int, settings: ProtectionSettings) -> int:
    """Return until when a job's own token extends a protection (ms since 1970)."""
    return registered_at + settings.job_max_age_seconds * 1_000


def check_job_filter(filter_: Filter) -> None:
    """Raise ``JobQuotaExceeded`` if a filter is too large for a job's own token, or covers too many other objects."""
    remedy = "register objects or prefixes in chunks, or let an operator register it: scope operate@INSTANCE"
    if filter_.stored_bytes > JOB_FILTER_BYTES:
        raise JobQuotaExceeded(
            f"the filter has {filter_.stored_bytes:,} bytes, and a job's may have {JOB_FILTER_BYTES:,}; {remedy}"
        )
    share = filter_.share_of_all_keys()
    if share > JOB_FILTER_SHARE:
        raise JobQuotaExceeded(
            f"the filter covers {share:.0%} of all keys, so it would block deletion of objects that the job does not "
            f"copy; a job's may cover {JOB_FILTER_SHARE:.0%}: build it for more expected keys, or {remedy}"
        )


def _raised(setting: str) -> str:
    return f"an operator raises the limit: {setting} in section protection of the settings"


def expiry(now: int, seconds: int | None, settings: ProtectionSettings) -> int:
    """Return when a protection that is registered or renewed now expires (ms since 1970).

    ``seconds``: its duration; None: the setting's.

    Raises:
        Invalid: the duration is not positive, or longer than the settings allow.
    """
    duration = settings.ttl_seconds if seconds is None else seconds
    if not 0 < duration <= settings.max_seconds:
        raise Invalid(
            f"a protection lasts 1 to {settings.max_seconds} seconds (max_protection_seconds), not {duration}; "
            "renew it while the job runs"
        )
    return now + duration * 1_000


def renewed(
    protection: Protection, now: int, seconds: int | None, settings: ProtectionSettings, *, at_least: bool = False
) -> int:
    """Return when a protection that is renewed now expires (ms since 1970): never earlier than before.

    ``seconds``: duration from now; None: the setting's. ``at_least``: one that expires later than requested stays as it
    is.

    Raises:
        SoftDeleted: its job has finished it.
        Invalid: it would expire earlier than before, or the duration is out of range.
    """
    if protection.state is ProtectionState.SOFT:
        raise SoftDeleted(f"the protection of job {protection.job} is finished; register another job")
    until = expiry(now, seconds, settings)
    if at_least:
        return max(until, protection.expires_at)
    if until < protection.expires_at:
        raise Invalid(
            f"the renewed protection of job {protection.job} would end "
            f"{(protection.expires_at - until) / 1_000:.0f} s earlier; to end it, finish or release it"
        )
    return until


def renewed_valid_ts(protection: Protection, valid_ts: int | None, *, at_least: bool = False) -> int | None:
    """Return the watermark that a renewed protection waits for after its job has finished: never a lower one.

    ``valid_ts``: the requested one; None: as before. ``at_least``: one that waits for a higher one stays as it is.

    Raises:
        Invalid: it would wait for a lower watermark than before.
    """
    before = protection.valid_ts
    if before is None or valid_ts is None:
        return before if valid_ts is None else valid_ts
    if valid_ts < before and not at_least:
        raise Invalid(
            f"the protection of job {protection.job} waits for a watermark above {before} (valid_ts), and cannot wait "
            f"for a lower one, {valid_ts}"
        )
    return max(valid_ts, before)


def ended(
    protection: Protection, now: int, watermark: int | None, settings: ProtectionSettings
) -> ProtectionEnd | None:
    """Return why a protection ends with the round that begins now; None: it continues to block deletion.

    ``watermark``: the owner's, None where it never reported one.
    """
    if protection.state is not ProtectionState.SOFT:
        return ProtectionEnd.OVERDUE if now > protection.expires_at else None
    if watermark is None or protection.valid_ts is None:
        return ProtectionEnd.NO_WATERMARK
    if watermark > protection.valid_ts:
        return ProtectionEnd.PASSED
    finished = protection.finished_at if protection.finished_at is not None else protection.registered_at
    return ProtectionEnd.TOO_LONG if now - finished > settings.max_soft_hold_seconds * 1_000 else None


def sealing(job: str, results: Mapping[int, Sealed | None], count: int | None, *, is_filter: bool) -> Sealed:
    """Return the sum of the results of all chunks, with which the registration of a job may be sealed.

    ``results``: number of a chunk → its result; None: its objects are still being looked up. ``count``: how many chunks
    there must be; None: as many as there are. ``is_filter``: the objects of a filter cannot be looked up.

    Raises:
        Invalid: a chunk is missing, extra or not finished, or the registration would protect nothing.
    """
    numbers = range(len(results) if count is None else count)
    unfinished = [number for number in numbers if results.get(number) is None]
    if unfinished or (count is not None and len(results) != count):
        first = unfinished[0] if unfinished else count
        raise Invalid(
            f"chunk {first} of job {job} is not registered correctly; send each chunk once, from 0 to the last"
        )
    chunks = [result for result in results.values() if result is not None]
    if not chunks and not is_filter:
        raise Invalid(f"the protection of job {job} has no chunk, so it would protect nothing; register a chunk first")
    return Sealed(
        objects=sum(chunk.objects for chunk in chunks),
        bytes=sum(chunk.bytes for chunk in chunks),
        verified=not is_filter,
        claimed=sum(chunk.claimed for chunk in chunks),
        missing=sum(chunk.missing for chunk in chunks),
        named=tuple(islice((name for chunk in chunks for name in chunk.named), NAMED)),
    )


def canonical(name: str, vaults: Mapping[str, VaultSpec], *, prefix: bool = False) -> Item:
    """Return the object (or prefix) that a job names as ``VAULT/KEY``, or by a URL of the vault's store.

    A leading ``/`` of the key is dropped. Whether the object exists is looked up later, by the registrar.

    Raises:
        Invalid: the name lies in no vault of the instance, or is no valid key.
    """
    try:
        vault, key = resolve(name, vaults)
    except NotInAnyVault as e:
        raise Invalid(str(e)) from e
    try:
        (check_listing if prefix else check_key)(key)
    except BadInput as e:
        raise Invalid(f"{name!r}: {e}") from e
    return Item(vault, key, prefix)


def digest(items: Iterable[Item], filter_: bytes = b"") -> str:
    """Return the digest of items and a filter, which does not depend on the order of the items."""
    hash_ = hashlib.sha256(filter_)
    for item in sorted(items):
        hash_.update(f"{item.vault}\0{item.key}\0{item.prefix:d}\n".encode())
    return hash_.hexdigest()
