"""The register of protections, as rows. Registering never waits for a round, and no round waits for it.

A registration is opened, gets its rows in chunks (claims honour them from their commit on), and is sealed. After each
chunk the guard is taken for an instant: it parts the claims into those that are committed and those that see the rows
(docs/adr/0016). What is looked for after that is final, so nothing is protected and deleted without a word.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Table,
    Text,
    and_,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows
from sexton.kernel.crash_points import reached
from sexton.protection import policy
from sexton.protection.errors import Exists, GcIsRunning, Invalid, MaxCount
from sexton.protection.filter import Filter
from sexton.protection.model import CHUNK_ITEMS, Item, Protection, ProtectionSettings, ProtectionState, Sealed
from sexton.protection.sql.claimed_objects import ClaimedObjects
from sexton.protection.sql.rows import digest, protection


class ProtectionStore(ClaimedObjects):
    """Implements ``protection.port.Register``."""

    def __init__(self, db: Database, terms: ProtectionSettings) -> None:
        self._db, self._terms = db, terms

    def open(self, wanted: Protection, seconds: int | None, filter_: Filter | None = None) -> Protection:
        """Open a registration, or return the one that is there, if it is the same.

        Args:
            wanted: instance, job, owner, description, valid_ts, and ``digest``: the sum of all that is to come.
            seconds: until it ends, unless it is renewed; None: the setting's.
            filter_: what it covers, where that is a filter.

        Raises:
            Exists: the job has another protection, or one that it has finished.
            MaxCount: as many are active as may be.
            GcIsRunning: a round runs, and ``strict_gate`` is on.
            Invalid: a text or time is not acceptable.
        """
        check_text(wanted.job, wanted.owner, wanted.description)
        policy.check_names(wanted.job, wanted.owner)
        t = self._db.t.protection
        with deciding(self._db, wanted.instance) as c:
            now = self._db.now(c)
            if found := self._find(c, wanted.instance, wanted.job):
                until = max(self._same(found, wanted).expires_at, policy.expiry(now, seconds, self._terms))
                c.execute(update(t).where(t.c.id == found.id).values(expires_at=until))
                return found.model_copy(update={"expires_at": until})
            self._admit(c, wanted.instance, now)
            values = wanted.model_dump(include={"instance", "job", "owner", "description", "valid_ts", "digest"})
            values |= {"state": ProtectionState.OPEN, "registered_at": now, "changes": 1}
            values |= {"expires_at": policy.expiry(now, seconds, self._terms)}
            values |= {"filter": None if filter_ is None else bytes(filter_)}
            c.execute(insert(t).values(**values))
            made = self._find(c, wanted.instance, wanted.job)
            assert made is not None
            return made

    def _same(self, found: Protection, wanted: Protection) -> Protection:
        alike = ("digest", "owner", "valid_ts")
        if found.state is ProtectionState.SOFT:
            raise Exists(f"job {found.job} has finished its protection, which still keeps; register under another name")
        if any(getattr(found, n) != getattr(wanted, n) for n in alike):
            raise Exists(f"job {found.job} has a protection of something else; release it, or use another name")
        return found

    def _admit(self, c: Connection, instance: str, now: int) -> None:
        lease = self._db.t.lease
        if self._terms.strict_gate:
            busy = and_(lease.c.instance == instance, lease.c.state == "BUSY", lease.c.expires_at > now)
            if c.execute(select(lease.c.owner).where(busy).limit(1)).first() is not None:
                raise GcIsRunning(f"a round of {instance} runs and strict_gate is on; try again when it has ended")
        if self._active(c, instance) >= self._terms.max_count:
            self._end_due(c, instance, now)
            if (count := self._active(c, instance)) >= self._terms.max_count:
                raise MaxCount(
                    f"{instance} has {count} active protections, sync_protection_max_count allows "
                    f"{self._terms.max_count}; see: sexton protection list {instance}"
                )

    def _active(self, c: Connection, instance: str) -> int:
        t = self._db.t.protection
        active = and_(t.c.instance == instance, t.c.state != ProtectionState.SOFT)
        return int(c.execute(select(func.count()).select_from(t).where(active)).scalar_one())

    def add(
        self, instance: str, job: str, number: int, items: Sequence[Item], *, of: int | None = None
    ) -> Sealed | None:
        """Store the rows of one chunk, without the guard; return what was told of it if it had been told already.

        Raises:
            NotFound: no such registration.
            Invalid: it is sealed, the chunk is too large, or its number was used for other items.
        """
        if len(items) > CHUNK_ITEMS:
            raise Invalid(f"{len(items)} items in one chunk; at most {CHUNK_ITEMS}")
        t, item, chunk = self._db.t.protection, self._db.t.protection_item, self._db.t.protection_chunk
        sum_ = digest(items)
        with self._changing(instance, job, of) as (c, row):
            there = c.execute(select(chunk).where(chunk.c.protection == row.id, chunk.c.number == number)).one_or_none()
            if there is not None:
                if there.digest != sum_:
                    raise Invalid(f"chunk {number} of job {job} held other items before; use each number once")
                return None if there.told is None else Sealed(**there.told)
            if row.state != ProtectionState.OPEN:
                raise Invalid(f"the protection of job {job} is sealed; register under another name")
            given = as_rows(self._db, (i._asdict() for i in items), vault=Text(), key=Text(), prefix=Boolean())
            columns = {"instance": literal(instance), "vault": given.c.vault, "key": given.c.key}
            columns |= {"prefix": given.c.prefix, "protection": literal(row.id)}
            c.execute(self._unless_there(item).from_select([*columns], select(*columns.values())))
            sizes = sorted({*row.sizes, *(len(i.key) for i in items if i.prefix)})
            c.execute(update(t).where(t.c.id == row.id).values(changes=t.c.changes + 1, sizes=sizes))
            c.execute(insert(chunk).values(protection=row.id, number=number, digest=sum_))
        reached("protection.added")
        return None

    def part(self, instance: str) -> None:
        """Take the guard for an instant: a claim that did not see a row is committed now, every later one sees it."""
        with deciding(self._db, instance):
            reached("protection.parted")

    def tell(self, instance: str, job: str, number: int, told: Sealed, *, of: int | None = None) -> Sealed:
        """Store what came of a chunk; what was stored first stays. NotFound."""
        chunk = self._db.t.protection_chunk
        with self._changing(instance, job, of) as (c, row):
            its = and_(chunk.c.protection == row.id, chunk.c.number == number)
            first = and_(its, chunk.c.told.is_(None))
            c.execute(update(chunk).where(first).values(told=told.model_dump(mode="json")))
            return Sealed(**c.execute(select(chunk.c.told).where(its)).scalar_one())

    def told(self, instance: str, job: str, *, of: int | None = None) -> Mapping[int, Sealed | None]:
        """Return what was told of each chunk, by their numbers; None of one that is still looked for. NotFound."""
        chunk = self._db.t.protection_chunk
        with self._db.read() as c:
            row = self._row(c, instance, job, of)
            its = select(chunk.c.number, chunk.c.told).where(chunk.c.protection == row.id).order_by(chunk.c.number)
            return {r.number: None if r.told is None else Sealed(**r.told) for r in c.execute(its)}

    def seal(self, instance: str, job: str, sealed: Sealed, *, of: int | None = None) -> Protection:
        """Make the registration an active protection; repeating it returns what was stored first.

        Raises:
            NotFound: no such registration: it was released, or ran out.
        """
        t = self._db.t.protection
        with self._changing(instance, job, of) as (c, row):
            if row.state == ProtectionState.OPEN:
                values = {"state": ProtectionState.ACTIVE, "sealed": sealed.model_dump(mode="json")}
                c.execute(update(t).where(t.c.id == row.id).values(**values))
                reached("protection.sealed")
            return protection(self._row(c, instance, job))

    def _unless_there(self, table: Table) -> Any:
        if self._db.dialect == "postgresql":
            return postgresql.insert(table).on_conflict_do_nothing()
        return insert(table).prefix_with("OR IGNORE")
