"""Place, list and release operators' holds, which block the claim of marks. Placing one is a deciding transaction.

A hold blocks only marks that are not claimed yet: a claim is irrevocable. ``place`` counts the claims that came first.
"""

import logging
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, false, func, insert, not_, or_, select, true, update
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import newest
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput, Conflict, NotFound, WrongUsage
from sexton.marks.file_results import DamagedList
from sexton.marks.sql.file_lists import may_have_prefix, of_instance, read_lists
from sexton.marks.sql.rows import refs_in
from sexton.operators.controls.store import whoami
from sexton.operators.holds import keeper
from sexton.operators.holds.model import Coverage, Hold
from sexton.storage.policy import check_listing

log = logging.getLogger(__name__)
MAX_SECONDS = 3650 * 86_400
REASON_CHARACTERS = 500
COUNT_SECONDS = 5
"""How long a statement that counts the marks of a new hold may take: the hold is in force already."""


class TooLate(Conflict):
    """The mark to hold is already claimed or deleted."""


class UnknownHold(NotFound, BadInput):
    """No hold has this number."""


class HoldStore:
    """Holds as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def place(self, hold: Hold, seconds: int) -> tuple[Hold, int]:
        """Place a hold for so many seconds; return it, and how many of its marks are already claimed.

        Raises:
            UnknownInstance: no such instance.
            BadInput: the length, reason, vault or prefix is not acceptable.
            TooLate: the mark that the hold names is claimed or deleted, and it has no unclaimed descendants.
        """
        if not 0 < seconds <= MAX_SECONDS:
            raise WrongUsage(f"a hold lasts 1 to {MAX_SECONDS} seconds, not {seconds}")
        check_text(hold.reason, hold.placed_by, *filter(None, (hold.mark_id, hold.vault, hold.prefix)))
        if not 0 < len(hold.reason.strip()) <= REASON_CHARACTERS:
            raise WrongUsage(f"give a reason of 1 to {REASON_CHARACTERS} characters: others must know why it is held")
        t = self._db.t
        with deciding(self._db, hold.instance) as c:
            reached("hold.guarded")
            now = self._db.now(c)
            self._check_vault(c, hold)
            claimed = self._count_claimed(c, hold)
            placed = hold.model_copy(
                update={
                    "placed_by": hold.placed_by or whoami(),
                    "placed_at": now,
                    "expires_at": now + seconds * 1000,
                    "released_at": None,
                }
            )
            new_row = insert(t.hold).values(**placed.model_dump(exclude={"id"})).returning(t.hold.c.id)
            hold_id = c.execute(new_row).scalar_one()
            reached("hold.written")
        return placed.model_copy(update={"id": hold_id}), claimed

    def count_blocked(self, hold: Hold) -> Coverage | None:
        """Return how many unclaimed marks a hold blocks now; None: counting failed, or took over ``COUNT_SECONDS``.

        Marks whose files only their owner names are not counted for a prefix.
        """
        mark = self._db.t.mark
        unclaimed = and_(mark.c.instance == hold.instance, mark.c.state != "CLAIMED")
        count = select(func.count()).select_from(mark)
        try:
            with self._db.read() as c:
                self._db.limit_statements(c, COUNT_SECONDS)
                matches = keeper.names(self._db, hold)
                matching = c.execute(count.where(unclaimed, matches)).scalar_one()
                if hold.scope == "prefix":
                    is_above = keeper.has_prefix_above(self._db, hold)
                    above = c.execute(count.where(unclaimed, is_above, not_(func.coalesce(matches, false()))))
                    return Coverage(matching, above.scalar_one(), 0)
                if hold.scope != "mark":
                    return Coverage(matching, 0, 0)
                blocked = keeper.HoldKeeper(self._db).foreseen(c, hold.instance).get(hold.kept, false())
                blocked = or_(blocked, keeper.has_many_levels(self._db))  # each hold on a mark blocks those
                with_many_levels = c.execute(count.where(unclaimed, blocked)).scalar_one() - matching
                return Coverage(matching, 0, max(0, with_many_levels))
        except SQLAlchemyError:  # the hold is in force: an error here must not look as if it were not
            log.warning("the marks of hold %s were not counted", hold.id, exc_info=True)
            return None

    def instance_of(self, hold: int) -> str:
        """Return the instance of a hold; empty where there is no such hold."""
        t = self._db.t.hold
        with self._db.read() as c:
            return str(c.execute(select(t.c.instance).where(t.c.id == hold)).scalar_one_or_none() or "")

    def release(self, hold: int) -> Hold:
        """End a hold now; repeating it changes nothing; ``UnknownHold``: there is no such hold."""
        t = self._db.t.hold
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(update(t).where(t.c.id == hold, t.c.released_at.is_(None)).values(released_at=now))
            row = c.execute(select(t).where(t.c.id == hold)).one_or_none()
        if row is None:
            raise UnknownHold(f"there is no hold {hold}; see: sexton hold list --all")
        return Hold(**row._mapping)

    def active(self, instance: str | None = None) -> Sequence[Hold]:
        """Return the holds that are in effect now, the oldest first."""
        return keeper.find_active(self._db, instance)

    def newest(
        self, instance: str | None, limit: int, *, active: bool, before: int | None = None
    ) -> tuple[Sequence[Hold], int]:
        """Return the newest holds, or only those in effect, the newest first, and the instant (ms since 1970).

        ``before``: only holds with lower numbers.
        """
        t = self._db.t.hold
        query = newest(t, limit, instance, before)
        with self._db.read() as c:
            now = self._db.now(c)
            if active:
                query = query.where(t.c.released_at.is_(None), t.c.expires_at > now)
            return [Hold(**row._mapping) for row in c.execute(query)], now

    def _check_vault(self, c: Connection, hold: Hold) -> None:
        """Raise ``BadInput`` for a prefix hold that can match no key."""
        if hold.scope != "prefix":
            return
        vault = self._db.t.vault
        of_vault = and_(vault.c.instance == hold.instance, vault.c.name == hold.vault)
        vault_prefix = c.execute(select(vault.c.prefix).where(of_vault)).scalar_one_or_none()
        if vault_prefix is None:
            raise BadInput(f"instance {hold.instance} has no vault {hold.vault}; see: sexton vault list")
        # A prefix that begins no key would block nothing, although the hold looks effective.
        if hold.prefix:
            check_listing(hold.prefix)
        if vault_prefix and str(hold.prefix).startswith(vault_prefix):
            relative = f"{hold.vault}/{str(hold.prefix).removeprefix(vault_prefix)}"
            raise BadInput(
                f"keys are relative to their vault, whose own prefix is {vault_prefix}: write {relative}; if there is "
                f"a folder {vault_prefix} inside of it, hold the whole instance"
            )

    def _count_claimed(self, c: Connection, hold: Hold) -> int:
        """Return how many marks of this hold are already claimed, as far as the marks' rows show.

        Raises:
            TooLate: the mark is claimed or deleted, and it has no unclaimed descendants.
        """
        mark = self._db.t.mark
        of_hold = mark.c.instance == hold.instance
        if hold.scope == "mark":
            below = keeper.with_descendants(self._db, hold).subquery()
            # Each child is looked up by index: of a table that it believes small, PostgreSQL compares all with all.
            c.exec_driver_sql("SET LOCAL enable_seqscan = off")
            states = select(below.c.state, func.count().label("marks")).group_by(below.c.state)
            by_state = {row.state: row.marks for row in c.execute(states)}
            fates = {mark: "claimed: its files are being deleted", self._db.t.mark_history: "already deleted"}
            if not by_state.keys() - {"CLAIMED"}:
                for table, fate in fates.items():
                    if c.execute(select(table.c.id).where(keeper.is_held(table, hold))).first() is not None:
                        raise TooLate(f"{hold.mark_kind} {hold.mark_id} is {fate}; see: sexton why {hold.mark_id}")
            return int(by_state.get("CLAIMED", 0))
        if hold.scope == "prefix":
            of_hold = and_(of_hold, self._touches_prefix(c, hold))
        claimed = select(func.count()).select_from(mark).where(of_hold, mark.c.state == "CLAIMED")
        return int(c.execute(claimed).scalar_one())

    def _touches_prefix(self, c: Connection, hold: Hold) -> ColumnElement[bool]:
        """Return the condition that a mark has an undone file, or a prefix of its own, under the hold's prefix."""
        db, mark, prefix = self._db, self._db.t.mark, str(hold.prefix)
        lists = read_lists(db, c, of_instance(db, hold.instance), may_have_prefix(db, prefix))
        try:
            with_file = {
                run.ref
                for files in lists
                for run in files.runs
                if run.vault == hold.vault and any(key.startswith(prefix) for key in files.keys_of(run, undone=True))
            }
        except DamagedList as e:
            log.warning("%s", e)
            return true()  # any claimed mark may have a file there: the hold is placed, and counts them all
        return or_(refs_in(mark, with_file), keeper.has_prefix_under(self._db, hold))
