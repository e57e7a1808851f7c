"""Decide whether a job may open a registration, and how much it may protect; end the protections that are due.

Registered objects that are being deleted are found after ``wait_for_claims``: no more of them are claimed then.
"""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, and_, delete, func, or_, select

from sexton.database.engine import Database
from sexton.database.rows import PROTECTIONS, add_to_counters, beyond, in_list
from sexton.marks.model import Ref
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.file_lists import may_have_keys, of_instance, read_lists
from sexton.marks.sql.leases import seconds_of_requests
from sexton.marks.sql.rows import refs_in
from sexton.protection import policy
from sexton.protection.model import (
    NAMED,
    Exists,
    GcIsRunning,
    Item,
    JobUsage,
    MaxCount,
    Protection,
    ProtectionEnd,
    ProtectionSettings,
    ProtectionState,
)

FILES_AT_ONCE = 5_000


def find_claimed(db: Database, c: Connection, instance: str, items: Sequence[Item]) -> Sequence[tuple[str, str]]:
    """Return (vault, key) of the registered objects, and of those under registered prefixes, that are being deleted.

    A registered prefix may lose objects that a second pass finds. Only while a request of a first pass may be on its
    way, whose rows are gone, the prefixes of marks that await their second pass are returned too, where one of them and
    a registered prefix overlap. An object that is deleted already has no row any longer: only its store can answer,
    after this, whether it exists.
    """
    objects = [(item.vault, item.key) for item in items if not item.prefix]
    prefixes = Prefixes(items)
    claimed: set[tuple[str, str]] = set()
    if objects:
        keys, queried = [key for _, key in objects], set(objects)
        may_have = may_have_keys(db, min(keys), max(keys))
        claimed |= set(_claimed(db, c, instance, lambda vault, key: (vault, key) in queried, may_have))
    if prefixes:
        claimed |= set(islice(_claimed(db, c, instance, prefixes.cover), NAMED))  # a few: there may be millions
    claimed |= set(_in_second_pass(db, c, instance, objects))  # after the files: a first pass may end meanwhile
    if prefixes and seconds_of_requests(db, c, instance) > 0:
        overlapping: list[tuple[str, str]] = []
        for row in c.execute(_second_passes(db, instance).execution_options(yield_per=FILES_AT_ONCE)):
            vaults = prefixes.vaults if row.vault is None else (row.vault,)
            overlapping += [(vault, row.prefix) for vault in vaults if prefixes.overlap(vault, row.prefix)]
            if len(overlapping) >= NAMED:  # a few are enough
                break
        claimed |= set(overlapping)
    return sorted(claimed)


def claimed_files(db: Database, instance: str) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield (vault, key) of all objects that are being deleted, in pages, to be tested by a filter."""
    t, last_batch, last_file = db.t.file_list, -1, -1
    while True:
        is_later = beyond((t.c.batch, t.c.last), (last_batch, last_file))
        with db.read() as c:
            files = next(read_lists(db, c, of_instance(db, instance), is_later, at_once=1), None)
            claimed = frozenset() if files is None else _claimed_refs(db, c, instance, files.refs)
        if files is None:
            return
        yield [(run.vault, key) for run in files.runs_of(claimed) for key in files.keys_of(run)]
        last_batch, last_file = files.batch, files.last


def prefixes_of_requests(db: Database, instance: str) -> Sequence[tuple[str, str]]:
    """Return (vault, prefix) of a few marks whose first pass has ended, while a request of it may be on its way.

    A filter cannot be asked about a prefix. Without a vault (``*``): in every one.
    """
    with db.read() as c:
        if seconds_of_requests(db, c, instance) <= 0:
            return ()
        rows = c.execute(_second_passes(db, instance).order_by(db.t.mark.c.prefix).limit(NAMED))
        return [(row.vault or "*", row.prefix) for row in rows]


def _claimed(
    db: Database,
    c: Connection,
    instance: str,
    is_queried: Callable[[str, str], bool],
    *conditions: ColumnElement[bool],
) -> Iterator[tuple[str, str]]:
    """Yield vault and key of those of the queried files whose mark is claimed; ``conditions``: on their lists."""
    for files in read_lists(db, c, of_instance(db, instance), *conditions):
        queried = [(run, key) for run in files.runs for key in files.keys_of(run) if is_queried(run.vault, key)]
        claimed = _claimed_refs(db, c, instance, {run.ref for run, _ in queried})
        yield from ((run.vault, key) for run, key in queried if run.ref in claimed)


def _claimed_refs(db: Database, c: Connection, instance: str, refs: Set[Ref]) -> frozenset[Ref]:
    """Return those of these marks that are claimed."""
    if not refs:
        return frozenset()
    mark = db.t.mark
    claimed = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", refs_in(mark, refs))
    return frozenset(Ref(*row) for row in c.execute(select(mark.c.kind, mark.c.id).where(claimed)))


def _in_second_pass(
    db: Database, c: Connection, instance: str, objects: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the objects under the prefix of a claimed mark in its second pass.

    A worker that lost its lease may be deleting objects that this pass found, although their rows are deleted.
    """
    prefixes = sorted({prefix for _, key in objects for prefix in covering_prefixes(key)})
    rows = c.execute(_second_passes(db, instance).where(in_list(db.t.mark.c.prefix, prefixes)))
    second_pass_prefixes = {(row.vault, row.prefix) for row in rows}
    for vault, key in objects:
        # A mark without a vault deletes in every one.
        if any(not second_pass_prefixes.isdisjoint(((vault, p), (None, p))) for p in covering_prefixes(key)):
            yield vault, key


class Prefixes:
    """The prefixes among registered items, to be compared with very many keys and other prefixes."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._prefixes = {(item.vault, item.key) for item in items if item.prefix}
        self._ordered = sorted(self._prefixes)
        self._lengths = {len(key) for _, key in self._prefixes}  # there are few, however many prefixes there are
        self.vaults = {vault for vault, _ in self._prefixes}

    def __len__(self) -> int:
        return len(self._prefixes)

    def cover(self, vault: str, key: str) -> bool:
        """Return whether a key begins with one of the prefixes."""
        return any((vault, key[:length]) in self._prefixes for length in self._lengths)

    def overlap(self, vault: str, prefix: str) -> bool:
        """Return whether one of the prefixes begins with this one, or this one with one of them."""
        position = bisect_left(self._ordered, (vault, prefix))
        following = self._ordered[position : position + 1]
        is_around = any(other == vault and key.startswith(prefix) for other, key in following)
        return is_around or self.cover(vault, prefix)


def _second_passes(db: Database, instance: str) -> Select[Any, Any]:
    """Select vault and prefix of the marks that await their second pass; without a vault: in every one."""
    mark = db.t.mark
    awaits_second_pass = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.first_pass_at.is_not(None))
    return select(mark.c.vault, mark.c.prefix).where(awaits_second_pass, mark.c.prefix.is_not(None))


log = logging.getLogger(__name__)


def protection_columns(db: Database) -> list[Column[Any]]:
    """Return the columns of a protection without its filter, which may have megabytes."""
    return [column for column in db.t.protection.c if column.name != "filter"]


def select_protections(db: Database) -> Select[Any]:
    """Select protections without their filters."""
    return select(*protection_columns(db))


def ensure_same(registered: Protection, registration: Protection) -> None:
    """Raise ``Exists`` unless the job registers the same again, and has not finished it; a raised valid_ts stays."""
    job = registered.job
    if registered.state is ProtectionState.SOFT:
        raise Exists(f"job {job} has finished its protection, which still blocks deletion; register under another name")
    same = (registration.digest, registration.owner)
    valid_ts = policy.renewed_valid_ts(registered, registration.valid_ts, at_least=True)
    if (registered.digest, registered.owner) != same or registered.valid_ts != valid_ts:
        what = "a protection of other objects, of another owner or with a lower valid_ts"
        raise Exists(f"job {job} has {what}; renew or release it, or use another name")


def ensure_admitted(
    db: Database, c: Connection, registration: Protection, now: int, settings: ProtectionSettings, *, by_job: bool
) -> None:
    """Raise ``GcIsRunning``, ``JobQuotaExceeded`` or ``MaxCount`` where no protection may be opened now.

    At a maximum, protections that are due end first. ``by_job``: its own token registers the job. Its first protection
    is admitted even if the instance has its maximum, so that other jobs cannot use up the place of this one.
    """
    instance, job = registration.instance, registration.job
    if settings.strict_gate:
        lease = db.t.lease
        is_busy = and_(lease.c.instance == instance, lease.c.state == "BUSY", lease.c.expires_at > now)
        if c.execute(select(lease.c.owner).where(is_busy).limit(1)).first() is not None:
            raise GcIsRunning(f"a round of {instance} runs and strict_gate is on; try again when it has ended")
    usage = job_usage(db, c, instance, job)
    if usage.protections >= settings.job_max_protections:
        end_due(db, c, instance, now, settings)
        usage = job_usage(db, c, instance, job)
    policy.check_quota(job, usage._replace(protections=usage.protections + 1), settings)
    if by_job and not usage.protections:  # its first one needs no free place, and ends no other job's
        return
    if _active_count(db, c, instance) >= settings.max_count:
        end_due(db, c, instance, now, settings)
        if (active := _active_count(db, c, instance)) >= settings.max_count:
            raise MaxCount(
                f"{instance} has {active} active protections, sync_protection_max_count allows {settings.max_count}; "
                f"see: sexton protection list {instance}"
            )


def ensure_objects_fit(
    db: Database, c: Connection, registration: Protection, objects: int, settings: ProtectionSettings
) -> None:
    """Raise ``JobQuotaExceeded`` if the job of a registration would protect too many objects with these."""
    usage = job_usage(db, c, registration.instance, registration.job)
    policy.check_quota(registration.job, usage._replace(objects=usage.objects + objects), settings)


def job_usage(db: Database, c: Connection, instance: str, run: str) -> JobUsage:
    """Return what the job of a run uses, with all of its runs."""
    t, job = db.t.protection, policy.job_of(run)
    is_of_job = or_(t.c.job == job, func.substr(t.c.job, 1, len(job) + 1) == f"{job}:")
    sums = [func.coalesce(func.sum(column), 0) for column in (t.c.objects, t.c.bytes)]
    row = c.execute(select(func.count(), *sums).where(t.c.instance == instance, is_of_job)).one()
    return JobUsage(*map(int, row))


def _active_count(db: Database, c: Connection, instance: str) -> int:
    t = db.t.protection
    is_active = and_(t.c.instance == instance, t.c.state != ProtectionState.SOFT)
    return int(c.execute(select(func.count()).select_from(t).where(is_active)).scalar_one())


def end_due(
    db: Database, c: Connection, instance: str, now: int, settings: ProtectionSettings
) -> Mapping[str, ProtectionEnd]:
    """End the protections of an instance that are due; return job → reason."""
    t, i = db.t.protection, db.t.instance
    watermark = c.execute(select(i.c.watermark).where(i.c.id == instance)).scalar_one_or_none()

    def ending(query: Select[Any]) -> dict[int, tuple[Protection, ProtectionEnd]]:
        """Return id → (protection, reason) of those that the query selects and that are due."""
        ends: dict[int, tuple[Protection, ProtectionEnd]] = {}
        for row in c.execute(query.where(t.c.instance == instance)).all():
            registered = Protection(**row._mapping)
            reason = policy.ended(registered, now, watermark, settings)
            if reason is not None:
                ends[row.id] = (registered, reason)
        return ends

    candidates = ending(select_protections(db))
    if not candidates:
        return {}
    # A protection that is being renewed, or still receives rows, is locked by that transaction: the next round ends it.
    due = ending(select_protections(db).where(t.c.id.in_(candidates)).with_for_update(skip_locked=True))
    c.execute(delete(t).where(t.c.id.in_(due)))
    for ended, reason in due.values():
        if reason is not ProtectionEnd.PASSED:
            age = (now - ended.registered_at) // 1_000
            log.warning(
                "protection %s of %s, owner %s, ends after %d s: %s", ended.job, instance, ended.owner, age, reason
            )
    reasons = {ended.job: reason for ended, reason in due.values()}
    add_to_counters(db, c, instance, Counter((PROTECTIONS, str(reason)) for reason in reasons.values()))
    return reasons
