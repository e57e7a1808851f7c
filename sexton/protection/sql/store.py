"""Store protections. A registration never waits for a round, and no round waits for a registration.

A registration is opened, gets its rows in chunks (claims respect them from their commit on), and is sealed. After each
chunk the guard is taken for an instant: this separates the claims that are committed from those that see the rows
(docs/adr/0016). What is looked up after that is final, so no protected object is deleted without being named.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import Boolean, Connection, Text, and_, delete, func, insert, literal, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance, deciding
from sexton.database.rows import PROTECTIONS, add_to_counters, as_rows
from sexton.kernel.crash_points import reached
from sexton.protection import policy
from sexton.protection.filter import Filter
from sexton.protection.model import (
    CHUNK_ITEMS,
    Invalid,
    Item,
    Protection,
    ProtectionEnd,
    ProtectionNotFound,
    ProtectionSettings,
    ProtectionState,
    Sealed,
)
from sexton.protection.sql import admission
from sexton.protection.sql.admission import (
    end_due,
    ensure_admitted,
    ensure_objects_fit,
    ensure_same,
    job_usage,
    protection_columns,
    select_protections,
)

log = logging.getLogger(__name__)
FORGOTTEN_AT_ONCE = 20_000
"""Rows of ended protections that one call deletes."""


class ProtectionStore:
    """The register of protections. Refusals are ``protection.errors``."""

    def __init__(self, db: Database, settings: ProtectionSettings, *, by_job: bool = False) -> None:
        """``by_job``: the callers are jobs with tokens of their own, which may do less than operators."""
        self._db, self._settings, self._by_job = db, settings, by_job

    def for_job(self) -> Self:
        """Return the same register for callers that are jobs."""
        return type(self)(self._db, self._settings, by_job=True)

    def open(self, registration: Protection, seconds: int | None, filter_: Filter | None = None) -> Protection:
        """Open a registration, or return the one that the job opened before, if it is the same.

        ``registration``: instance, job, owner, description, valid_ts, and ``digest``: of all items to register.
        ``seconds``: its duration, unless it is renewed; None: the setting's. ``filter_``: what it registers, if it is
        one.

        Raises:
            Exists: the job has another protection, or a finished one.
            MaxCount: the instance has the maximum number of active protections.
            JobQuotaExceeded: the job, with its runs, would have more than its quota.
            GcIsRunning: a round runs, and ``strict_gate`` is on.
            Invalid: a text or the duration is not valid.
        """
        check_text(registration.job, registration.owner, registration.description)
        policy.check_names(registration.job, registration.owner)
        t = self._db.t.protection
        with deciding(self._db, registration.instance) as c:
            now = self._db.now(c)
            of_job = and_(t.c.instance == registration.instance, t.c.job == registration.job)
            row = c.execute(select_protections(self._db).where(of_job)).one_or_none()
            if row is not None:
                registered = Protection(**row._mapping)
                ensure_same(registered, registration)
                until = policy.renewed(registered, now, seconds, self._settings, at_least=True)
                if self._by_job:
                    latest_end = policy.latest_end(registered.registered_at, self._settings)
                    until = max(registered.expires_at, min(until, latest_end))
                return self._update(c, registered.id, expires_at=until)
            ensure_admitted(self._db, c, registration, now, self._settings, by_job=self._by_job)
            values = registration.model_dump(include={"instance", "job", "owner", "description", "valid_ts", "digest"})
            values |= {"state": ProtectionState.OPEN, "registered_at": now, "changes": 1}
            values |= {"expires_at": policy.expiry(now, seconds, self._settings)}
            if self._by_job:
                policy.check_age(registration.job, now, values["expires_at"], self._settings)
            if filter_ is not None:
                if self._by_job:
                    policy.check_job_filter(filter_)
                ensure_objects_fit(self._db, c, registration, filter_.count, self._settings)
                values |= {"filter": bytes(filter_), "objects": filter_.count}
            opened = c.execute(insert(t).values(**values).returning(*protection_columns(self._db))).one()
            return Protection(**opened._mapping)

    def add(self, registration: Protection, number: int, items: Sequence[Item]) -> Sealed | None:
        """Store the rows of one chunk, without the guard; return the result of the chunk if it is stored already.

        Raises:
            ProtectionNotFound: there is no such registration.
            Invalid: it is sealed, the chunk is too large, or its number was used for other items.
            JobQuotaExceeded: the job, with its runs, would protect more objects than its quota. Chunks of two runs that
                are stored at the same moment may together exceed it.
        """
        if len(items) > CHUNK_ITEMS:
            raise Invalid(f"{len(items)} items in one chunk; at most {CHUNK_ITEMS}")
        t, chunk = self._db.t.protection, self._db.t.protection_chunk
        chunk_digest, job = policy.digest(items), registration.job
        with self._locked(registration.instance, job, registration.id) as (c, row):
            is_chunk = and_(chunk.c.protection == row.id, chunk.c.number == number)
            stored_chunk = c.execute(select(chunk).where(is_chunk)).one_or_none()
            if stored_chunk is not None:
                if stored_chunk.digest != chunk_digest:
                    raise Invalid(f"chunk {number} of job {job} held other items before; use each number once")
                return _result(stored_chunk.result)
            if row.state != ProtectionState.OPEN:
                raise Invalid(f"the protection of job {job} is sealed; register under another name")
            ensure_objects_fit(self._db, c, registration, len(items), self._settings)
            new_items = as_rows((i._asdict() for i in items), vault=Text(), key=Text(), prefix=Boolean())
            columns: dict[str, Any] = {name: new_items.c[name] for name in Item._fields}
            columns |= {"instance": literal(row.instance), "protection": literal(row.id)}
            insert_items = upsert(self._db.t.protection_item).from_select([*columns], select(*columns.values()))
            c.execute(insert_items.on_conflict_do_nothing())  # it may have registered some of them already
            counts = {"changes": t.c.changes + 1, "objects": t.c.objects + len(items)}
            sizes = sorted({*row.sizes, *(len(item.key) for item in items if item.prefix)})
            c.execute(update(t).where(t.c.id == row.id).values(**counts, sizes=sizes))
            c.execute(insert(chunk).values(protection=row.id, number=number, digest=chunk_digest))
        reached("protection.added")
        return None

    def wait_for_claims(self, instance: str) -> None:
        """Take the guard for an instant: claims that could not see the committed rows are committed by then."""
        with deciding(self._db, instance):
            reached("protection.parted")

    def find_claimed(self, registration: Protection, items: Sequence[Item]) -> Sequence[tuple[str, str]]:
        """Return (vault, key) of the objects, and of those under the prefixes, that are being deleted.

        Called after ``wait_for_claims``: no more of them are claimed then.

        Raises:
            ProtectionNotFound: there is no such registration.
        """
        with self._db.read() as c:
            self._row(c, registration.instance, registration.job, registration.id)
            return admission.find_claimed(self._db, c, registration.instance, items)

    def find_covered(self, instance: str, filter_: Filter) -> Sequence[tuple[str, str]]:
        """Return (vault, key) of objects that are being deleted and that a filter covers.

        And (vault, prefix) under which a request may still delete objects that no row names.
        """
        files = (file for page in admission.claimed_files(self._db, instance) for file in page)
        covered = [(vault, key) for vault, key in files if filter_.covers(vault, key)]
        return [*covered, *admission.prefixes_of_requests(self._db, instance)]

    def store_result(self, registration: Protection, number: int, result: Sealed) -> Sealed:
        """Store the result of a chunk; return the one that was stored first.

        Raises:
            ProtectionNotFound: there is no such registration.
            JobQuotaExceeded: the job, with its runs, would protect more bytes than its quota.
        """
        t, chunk = self._db.t.protection, self._db.t.protection_chunk
        instance, job = registration.instance, registration.job
        with self._locked(instance, job, registration.id) as (c, row):
            is_chunk = and_(chunk.c.protection == row.id, chunk.c.number == number)
            is_first = and_(is_chunk, chunk.c.result.is_(None))
            values = {"result": result.model_dump(mode="json")}
            if c.execute(update(chunk).where(is_first).values(**values)).rowcount:
                c.execute(update(t).where(t.c.id == row.id).values(bytes=t.c.bytes + result.bytes))
                policy.check_quota(job, job_usage(self._db, c, instance, job), self._settings)
            return Sealed(**c.execute(select(chunk.c.result).where(is_chunk)).scalar_one())

    def results(self, registration: Protection) -> Mapping[int, Sealed | None]:
        """Return number of a chunk → its result; None: not stored yet. ``ProtectionNotFound``."""
        chunk = self._db.t.protection_chunk
        with self._db.read() as c:
            row = self._row(c, registration.instance, registration.job, registration.id)
            query = select(chunk.c.number, chunk.c.result).where(chunk.c.protection == row.id).order_by(chunk.c.number)
            return {chunk_row.number: _result(chunk_row.result) for chunk_row in c.execute(query)}

    def seal(self, registration: Protection, sealed: Sealed) -> Protection:
        """Make the registration an active protection; a repeated call returns the first result.

        Raises:
            ProtectionNotFound: there is no such registration: it was released, or expired.
        """
        with self._locked(registration.instance, registration.job, registration.id) as (c, row):
            if row.state != ProtectionState.OPEN:
                return Protection(**row._mapping)
            active = self._update(c, row.id, state=ProtectionState.ACTIVE, sealed=sealed.model_dump(mode="json"))
            reached("protection.sealed")
            return active

    def give_up(self, registration: Protection, why: str) -> bool:
        """End a registration unless it is sealed; return whether it was ended."""
        t = self._db.t.protection
        is_open = and_(t.c.id == registration.id, t.c.state == ProtectionState.OPEN)
        with self._db.write() as c:
            was_ended = c.execute(delete(t).where(is_open)).rowcount == 1
        if was_ended:
            log.warning("the registration of job %s of %s ends: %s", registration.job, registration.instance, why)
        return was_ended

    def renew(
        self,
        instance: str,
        job: str,
        seconds: int | None,
        *,
        valid_ts: int | None = None,
        of: int | None = None,
        at_least: bool = False,
    ) -> Protection:
        """Extend a protection. Its end and ``valid_ts`` move only forwards.

        ``seconds``: duration from now; None: the setting's. ``valid_ts``: the watermark to wait for after the job has
        finished; None: as before. ``of``: the id of the protection that is meant, as the job may have had another one
        before. ``at_least``: a time or watermark that is later than requested stays as it is.

        Raises:
            ProtectionNotFound: there is no such protection; perhaps a round found it overdue and ended it.
            SoftDeleted: it is finished.
            Invalid: it would expire earlier, or wait for a lower watermark, or the duration is out of range.
            JobQuotaExceeded: a job's own token would extend it further than to its greatest age.
        """
        with self._locked(instance, job, of) as (c, row):
            registered = Protection(**row._mapping)
            until = policy.renewed(registered, self._db.now(c), seconds, self._settings, at_least=at_least)
            if self._by_job and until > row.expires_at:
                policy.check_age(job, row.registered_at, until, self._settings)
            valid_ts = policy.renewed_valid_ts(registered, valid_ts, at_least=at_least)
            return self._update(c, row.id, expires_at=until, valid_ts=valid_ts)

    def finish(self, instance: str, job: str, *, of: int | None = None) -> Protection:
        """Finish a protection: it blocks deletion until the watermark has passed. A repeated call changes nothing.

        ``of``: see ``renew``. ``ProtectionNotFound``.
        """
        with self._locked(instance, job, of) as (c, row):
            if row.state == ProtectionState.SOFT:
                return Protection(**row._mapping)
            return self._update(c, row.id, state=ProtectionState.SOFT, finished_at=self._db.now(c))

    def release(self, instance: str, job: str, why: str = "") -> Protection:
        """End a protection at once, and return it. ``ProtectionNotFound``."""
        t = self._db.t.protection
        with self._locked(instance, job) as (c, row):
            c.execute(delete(t).where(t.c.id == row.id))
            add_to_counters(self._db, c, instance, {(PROTECTIONS, str(ProtectionEnd.RELEASED)): 1})
            log.warning("protection %s of %s, owner %s, is released: %s", job, instance, row.owner, why)
            return Protection(**row._mapping)

    def watermark(self, instance: str, value: int) -> None:
        """Store the owner's watermark.

        Raises:
            UnknownInstance: the instance is not registered.
            Invalid: the watermark is above the value already.
        """
        t = self._db.t.instance
        with self._db.write() as c:
            is_forward = and_(t.c.id == instance, func.coalesce(t.c.watermark, value) <= value)
            values = {"watermark": value, "watermark_at": self._db.now(c)}
            if c.execute(update(t).where(is_forward).values(**values)).rowcount == 1:
                return
            row = c.execute(select(t.c.watermark).where(t.c.id == instance)).one_or_none()
        if row is None:
            raise UnknownInstance(instance)
        raise Invalid(f"the watermark of {instance} is {row.watermark} already; it cannot move back to {value}")

    def reported_watermark(self, instance: str) -> int | None:
        """Return the owner's watermark; None: it never reported one."""
        t = self._db.t.instance
        with self._db.read() as c:
            value: int | None = c.execute(select(t.c.watermark).where(t.c.id == instance)).scalar_one()
            return value

    def list_protections(self, instance: str | None = None) -> Sequence[Protection]:
        """Return the protections of an instance, or of all, the oldest first, and why the next round ends each."""
        t, i = self._db.t.protection, self._db.t.instance
        condition = true() if instance is None else t.c.instance == instance
        with self._db.read() as c:
            now = self._db.now(c)
            watermarks = {row.id: row.watermark for row in c.execute(select(i.c.id, i.c.watermark))}
            rows = c.execute(select_protections(self._db).where(condition).order_by(t.c.id))
            registered = [Protection(**row._mapping) for row in rows]
        ends = [policy.ended(p, now, watermarks.get(p.instance), self._settings) for p in registered]
        return [p.model_copy(update={"ends": end}) for p, end in zip(registered, ends, strict=True)]

    def find(self, instance: str, job: str) -> Protection:
        """Return the protection of a job. ``ProtectionNotFound``."""
        with self._db.read() as c:
            return Protection(**self._row(c, instance, job)._mapping)

    def end_due(self, instance: str) -> Mapping[str, ProtectionEnd]:
        """End the protections that are overdue, or finished and passed by the watermark; return job → reason.

        A round calls this once, before its first claim. It needs no guard: the end of a protection endangers no object.
        """
        with self._db.write() as c:
            return end_due(self._db, c, instance, self._db.now(c), self._settings)

    def delete_ended_rows(self) -> int:
        """Delete item rows of one protection that has ended, at most ``FORGOTTEN_AT_ONCE``; return how many.

        The search goes from id to id along the index, so that it does not read the millions of rows of other
        protections.
        """
        t, item = self._db.t.protection, self._db.t.protection_item
        ids = select(func.min(item.c.protection).label("id")).cte("at", recursive=True)
        next_id = select(func.min(item.c.protection)).where(item.c.protection > ids.c.id).scalar_subquery()
        ids = ids.union_all(select(next_id).where(ids.c.id.is_not(None)))
        first_ended = select(ids.c.id).where(ids.c.id.is_not(None), ids.c.id.not_in(select(t.c.id))).limit(1)
        with self._db.write() as c:
            ended_id = c.execute(first_ended).scalar_one_or_none()
            if ended_id is None:
                return 0
            primary_key = (item.c.instance, item.c.vault, item.c.key, item.c.prefix, item.c.protection)
            rows = select(*primary_key).where(item.c.protection == ended_id).limit(FORGOTTEN_AT_ONCE)
            return c.execute(delete(item).where(tuple_(*primary_key).in_(rows))).rowcount

    @contextmanager
    def _locked(self, instance: str, job: str, registration_id: int | None = None) -> Iterator[tuple[Connection, Any]]:
        """Open a transaction that locks the row of a job's protection. ``ProtectionNotFound``."""
        with self._db.write() as c:
            yield c, self._row(c, instance, job, registration_id, lock=True)

    def _update(self, c: Connection, id_: int, **values: object) -> Protection:
        t = self._db.t.protection
        changed = update(t).where(t.c.id == id_).values(**values).returning(*protection_columns(self._db))
        return Protection(**c.execute(changed).one()._mapping)

    def _row(
        self, c: Connection, instance: str, job: str, registration_id: int | None = None, *, lock: bool = False
    ) -> Any:
        """Return the row of a job's protection, of a certain one if an id is given, or raise ``ProtectionNotFound``."""
        t = self._db.t.protection
        query = select_protections(self._db).where(t.c.instance == instance, t.c.job == job)
        if registration_id is not None:
            query = query.where(t.c.id == registration_id)
        row = c.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            see = f"see: sexton protection list {instance}"
            raise ProtectionNotFound(f"{instance} has no protection of job {job}; {see}")
        return row


def _result(stored: Mapping[str, Any] | None) -> Sealed | None:
    return None if stored is None else Sealed(**stored)
