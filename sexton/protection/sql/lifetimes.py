"""How protections go on and end, as rows: renewed, finished, released, overdue, past the watermark."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, select, true, tuple_, update

from sexton.database.counters import PROTECTIONS, add_to_counters
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.protection import policy
from sexton.protection.errors import Invalid, ProtectionNotFound
from sexton.protection.model import Protection, ProtectionEnd, ProtectionSettings, ProtectionState
from sexton.protection.sql.rows import protection

log = logging.getLogger(__name__)
FORGOTTEN_AT_ONCE = 20_000
"""Rows of ended protections that one call removes."""


class Lifetimes:
    """Protections that are registered."""

    _db: Database
    _terms: ProtectionSettings

    def renew(
        self, instance: str, job: str, seconds: int | None, *, of: int | None = None, at_least: bool = False
    ) -> Protection:
        """Move its end forward.

        Args:
            instance: whose.
            job: whose.
            seconds: from now; None: the setting's.
            of: the id of the one that is meant.
            at_least: one that keeps for longer than is asked for is as good.

        Raises:
            NotFound: no such protection; perhaps a round found it overdue a moment ago.
            SoftDeleted: it is finished.
            Invalid: it would end earlier, or too late.
        """
        t = self._db.t.protection
        with self._changing(instance, job, of) as (c, row):
            until = policy.renewed(protection(row), self._db.now(c), seconds, self._terms, at_least=at_least)
            c.execute(update(t).where(t.c.id == row.id).values(expires_at=until))
            return protection(self._row(c, instance, job))

    def finish(self, instance: str, job: str, *, of: int | None = None) -> Protection:
        """Say that the job is done: it keeps until the watermark has passed; repeating it changes nothing. NotFound."""
        t = self._db.t.protection
        with self._changing(instance, job, of) as (c, row):
            if row.state != ProtectionState.SOFT:
                values = {"state": ProtectionState.SOFT, "finished_at": self._db.now(c)}
                c.execute(update(t).where(t.c.id == row.id).values(**values))
            return protection(self._row(c, instance, job))

    def release(self, instance: str, job: str, why: str = "") -> Protection:
        """End it at once. NotFound."""
        t = self._db.t.protection
        with self._changing(instance, job) as (c, row):
            c.execute(delete(t).where(t.c.id == row.id))
            add_to_counters(self._db, c, instance, {(PROTECTIONS, str(ProtectionEnd.RELEASED)): 1})
            log.warning("protection %s of %s, owner %s, is released: %s", job, instance, row.owner, why)
            return protection(row)

    def watermark(self, instance: str, value: int) -> None:
        """Store how far the owner has come.

        Raises:
            UnknownInstance: no such instance.
            Invalid: it was further already.
        """
        t = self._db.t.instance
        with self._db.write() as c:
            forward = and_(t.c.id == instance, func.coalesce(t.c.watermark, value) <= value)
            values = {"watermark": value, "watermark_at": self._db.now(c)}
            if c.execute(update(t).where(forward).values(**values)).rowcount == 1:
                return
            before = c.execute(select(t.c.watermark).where(t.c.id == instance)).one_or_none()
        if before is None:
            raise UnknownInstance(instance)
        raise Invalid(f"the watermark of {instance} is {before.watermark} already; {value} is before it")

    def all(self, instance: str | None = None) -> Sequence[Protection]:
        """Return the protections of an instance, or of all, the oldest first."""
        t = self._db.t.protection
        here = true() if instance is None else t.c.instance == instance
        with self._db.read() as c:
            return [protection(row) for row in c.execute(self._select().where(here).order_by(t.c.id))]

    def end_due(self, instance: str) -> Mapping[str, ProtectionEnd]:
        """End what is overdue, or finished and past; return each job with why. Once a round, before its first claim.

        Without the guard: that something is protected no more hurts nobody.
        """
        with self._db.write() as c:
            return self._end_due(c, instance, self._db.now(c))

    def _end_due(self, c: Connection, instance: str, now: int) -> dict[str, ProtectionEnd]:
        t, its = self._db.t.protection, self._db.t.instance
        watermark = c.execute(select(its.c.watermark).where(its.c.id == instance)).scalar_one_or_none()

        def over(wanted: Select[Any]) -> dict[int, tuple[Protection, ProtectionEnd]]:
            found = ((row.id, protection(row)) for row in c.execute(wanted.where(t.c.instance == instance)).all())
            return {id_: (p, why) for id_, p in found if (why := policy.ended(p, now, watermark, self._terms))}

        if not (maybe := over(self._select())):
            return {}
        # Whoever is being renewed, or still gets rows, has its row locked, and is looked at in the next round.
        locked = over(self._select().where(t.c.id.in_(maybe)).with_for_update(skip_locked=True))
        c.execute(delete(t).where(t.c.id.in_(locked)))
        for p, why in locked.values():
            if why is not ProtectionEnd.PASSED:
                age = (now - p.registered_at) // 1_000
                log.warning("protection %s of %s, owner %s, ends after %d s: %s", p.job, instance, p.owner, age, why)
        ended = {p.job: why for p, why in locked.values()}
        add_to_counters(self._db, c, instance, Counter((PROTECTIONS, str(why)) for why in ended.values()))
        return ended

    def forget(self) -> int:
        """Remove rows of one protection that has ended, some thousands at a time; return how many.

        From id to id along the index: what is registered by the million is not read to find what is over.
        """
        t, item = self._db.t.protection, self._db.t.protection_item
        at = select(func.min(item.c.protection).label("id")).cte("at", recursive=True)
        next_ = select(func.min(item.c.protection)).where(item.c.protection > at.c.id).scalar_subquery()
        at = at.union_all(select(next_).where(at.c.id.is_not(None)))
        over = select(at.c.id).where(at.c.id.is_not(None), at.c.id.not_in(select(t.c.id))).limit(1)
        with self._db.write() as c:
            ended = c.execute(over).scalar_one_or_none()
            if ended is None:
                return 0
            names = (item.c.instance, item.c.vault, item.c.key, item.c.prefix, item.c.protection)
            these = select(*names).where(item.c.protection == ended).limit(FORGOTTEN_AT_ONCE)
            return c.execute(delete(item).where(tuple_(*names).in_(these))).rowcount

    def give_up(self, registration: Protection, why: str) -> bool:
        """End a registration that nobody has sealed meanwhile; return whether there was one."""
        t = self._db.t.protection
        its = and_(t.c.id == registration.id, t.c.state == ProtectionState.OPEN)
        with self._db.write() as c:
            ended = c.execute(delete(t).where(its)).rowcount == 1
        if ended:
            log.warning("the registration of job %s of %s ends: %s", registration.job, registration.instance, why)
        return ended

    @contextmanager
    def _changing(self, instance: str, job: str, of: int | None = None) -> Iterator[tuple[Connection, Any]]:
        """Open a transaction in which nobody else changes this protection; ``of``: the id of the one that is meant."""
        with self._db.write() as c:
            yield c, self._row(c, instance, job, of, lock=True)

    def _row(self, c: Connection, instance: str, job: str, of: int | None = None, *, lock: bool = False) -> Any:
        t = self._db.t.protection
        wanted = self._select().where(t.c.instance == instance, t.c.job == job)
        wanted = wanted if of is None else wanted.where(t.c.id == of)
        row = c.execute(wanted.with_for_update() if lock else wanted).one_or_none()
        if row is None:
            raise ProtectionNotFound(
                f"{instance} has no protection of job {job}; see: sexton protection list {instance}"
            )
        return row

    def find(self, instance: str, job: str) -> Protection:
        """Return a job's protection. NotFound."""
        with self._db.read() as c:
            return protection(self._row(c, instance, job))

    def _find(self, c: Connection, instance: str, job: str) -> Protection | None:
        t = self._db.t.protection
        row = c.execute(self._select().where(t.c.instance == instance, t.c.job == job)).one_or_none()
        return None if row is None else protection(row)

    def _select(self) -> Select[Any]:
        """Select protections without their filters, which may have megabytes."""
        return select(*(column for column in self._db.t.protection.c if column.name != "filter"))
