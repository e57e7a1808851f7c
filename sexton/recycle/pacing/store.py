"""Store what all workers know about the places, and operators' caps. No guard: nothing is decided here.

An exchange is a handful of statements in one short transaction, for any number of places; rows are locked in the order
of their names, so that two workers never wait for each other in a circle.
"""

import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, delete, exists, func, select, true
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database, first_line
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.operators.controls.store import whoami
from sexton.recycle.pacing.model import Cap, PaceReport, PaceUpdate, PlaceFigures, Shared
from sexton.recycle.pacing.policy import merged

SEEN_SECONDS = 15
"""A worker has a share in a place while its last report about it is not older."""
FORGOTTEN_SECONDS = 3_600
"""The counts of a worker that has not reported for so long are added to the row without a worker."""
IDLE_DAYS = 7
"""A place without a delete for so long is forgotten: folders with dates in their names would add up."""
NO_WORKER = ""
COUNTS = ("requests", "throttled", "keys")
log = logging.getLogger(__name__)


class PaceStore:
    """The rows of places and caps, for the pacers of all workers, the command and the metrics."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def exchange(self, worker: str, reports: Sequence[PaceReport]) -> PaceUpdate | None:
        """Store a worker's reports and return what all workers know; None where the database does not answer."""
        reports = sorted(reports, key=lambda report: report.place)
        try:
            with self._db.write() as c:
                now = self._db.now(c)
                shared = self._merge(c, [report for report in reports if report.learns], now)
                self._count(c, worker, reports, now)
                workers = self._workers(c, now, [report.place for report in reports])
                cap = self._db.t.pace_cap
                caps = {(r.instance, r.vault): int(r.keys_per_second) for r in c.execute(select(cap))}
            return PaceUpdate(shared, workers, caps)
        except SQLAlchemyError as e:
            log.warning("cannot exchange the pace with other workers; this one goes on with its own: %s", first_line(e))
            return None

    def figures(self) -> Sequence[PlaceFigures]:
        """Return every place that has a rate, in the order of names; its counts never decrease while it is used.

        They are the metrics ``sexton_pace_keys_per_second`` and (``throttled``) ``sexton_throttled_requests_total``.
        """
        pace, share = self._db.t.pace, self._db.t.pace_share
        sums = [func.coalesce(func.sum(share.c[name]), 0).label(name) for name in COUNTS]
        with self._db.read() as c:
            workers = self._workers(c, self._db.now(c))
            no_counts = dict.fromkeys(COUNTS, 0)
            counted = c.execute(select(share.c.place, *sums).group_by(share.c.place))
            counts = {row.place: {name: int(row._mapping[name]) for name in COUNTS} for row in counted}
            return [
                PlaceFigures(**row._mapping, **counts.get(row.place, no_counts), workers=workers.get(row.place, 0))
                for row in c.execute(select(pace).order_by(pace.c.place))
            ]

    def caps(self, instance: str | None = None) -> Sequence[Cap]:
        """Return the caps of one instance or of all, in the order of instances and vaults."""
        t = self._db.t.pace_cap
        condition = true() if instance is None else t.c.instance == instance
        query = select(t).where(condition).order_by(t.c.instance, t.c.vault)
        with self._db.read() as c:
            return [Cap(**row._mapping) for row in c.execute(query)]

    def put_cap(self, vault: str, keys_per_second: int, reason: str = "", by: str = "") -> Cap:
        """Set or replace the cap of the deletes in ``VAULT`` or ``INSTANCE/VAULT``, over all workers.

        The name may be without its instance where only one instance has such a vault. ``by``: who sets it; empty: the
        user of this process.

        Raises:
            BadInput: there is no such vault, or several instances have one of that name.
        """
        check_text(vault, reason, by)
        t = self._db.t.pace_cap
        with self._db.write() as c:
            instance, name = self._vault(c, vault)
            cap = Cap(
                instance=instance,
                vault=name,
                keys_per_second=keys_per_second,
                reason=reason,
                set_by=by or whoami(),
                since=self._db.now(c),
            )
            changes = cap.model_dump(exclude={"instance", "vault"})
            new_row = upsert(t).values(**cap.model_dump())
            c.execute(new_row.on_conflict_do_update(index_elements=["instance", "vault"], set_=changes))
        return cap

    def clear_cap(self, vault: str) -> tuple[str, bool]:
        """Remove a cap; return ``INSTANCE/VAULT`` and whether it had one. Raises as ``put_cap`` does."""
        check_text(vault)
        t = self._db.t.pace_cap
        with self._db.write() as c:
            instance, name = self._vault(c, vault)
            had_cap = c.execute(delete(t).where(t.c.instance == instance, t.c.vault == name)).rowcount == 1
        return f"{instance}/{name}", had_cap

    def _vault(self, c: Connection, vault: str) -> tuple[str, str]:
        """Return (instance, name) of the one vault that ``VAULT`` or ``INSTANCE/VAULT`` names."""
        t = self._db.t.vault
        instance, _, name = vault.rpartition("/")
        condition = and_(t.c.name == name, t.c.instance == instance if instance else true())
        rows = c.execute(select(t.c.instance, t.c.name).where(condition).order_by(t.c.instance)).all()
        if not rows:
            raise BadInput(f"there is no vault {vault}; see: sexton vault list")
        if len(rows) > 1:
            choices = ", ".join(f"{row.instance}/{row.name}" for row in rows)
            raise BadInput(f"several instances have a vault {vault}; name one: {choices}")
        return rows[0].instance, rows[0].name

    def _merge(self, c: Connection, reports: Sequence[PaceReport], now: int) -> Mapping[str, Shared]:
        """Merge one worker's reports into the rows of their places, and return those rows."""
        t = self._db.t.pace
        places = in_list(t.c.place, [report.place for report in reports])
        locked_rows = c.execute(select(t).where(places).order_by(t.c.place).with_for_update())
        stored = {row.place: Shared(**row._mapping) for row in locked_rows}
        shared = {report.place: merged(stored.get(report.place), report, now) for report in reports}
        changed = [{"place": place, **row.model_dump()} for place, row in shared.items() if row != stored.get(place)]
        updated = [row for row in changed if row["place"] in stored]
        added = [row for row in changed if row["place"] not in stored]
        if updated:
            insert = upsert(t).values(updated)
            changes = {name: insert.excluded[name] for name in Shared.model_fields}
            c.execute(insert.on_conflict_do_update(index_elements=["place"], set_=changes))
        if added:
            # Another worker may add the same place this moment; this worker reads its row at the next exchange.
            c.execute(upsert(t).values(added).on_conflict_do_nothing())
        return shared

    def _count(self, c: Connection, worker: str, reports: Sequence[PaceReport], now: int) -> None:
        """Add the counts of the reports, and move the counts of forgotten workers to the row without a worker."""
        self._add(c, worker, now, {r.place: (r.requests, r.throttled, r.keys) for r in reports})
        t = self._db.t.pace_share
        forgotten = and_(t.c.seen_at < now - FORGOTTEN_SECONDS * 1000, t.c.worker != NO_WORKER)
        sums: dict[str, tuple[int, ...]] = {}
        for place, *counts in c.execute(delete(t).where(forgotten).returning(t.c.place, *[t.c[n] for n in COUNTS])):
            sums[place] = tuple(a + b for a, b in zip(sums.get(place, (0, 0, 0)), counts, strict=True))
        self._add(c, NO_WORKER, now, dict(sorted(sums.items())))
        if sums:  # a worker has left these places, perhaps as the last one
            pace, before = self._db.t.pace, now - IDLE_DAYS * 86_400_000
            c.execute(delete(t).where(t.c.seen_at < before))
            has_share = exists().where(t.c.place == pace.c.place)
            c.execute(delete(pace).where(pace.c.updated_at < before, ~has_share))

    def _add(self, c: Connection, worker: str, now: int, counts: Mapping[str, Sequence[int]]) -> None:
        """Add counts by place to a worker's rows."""
        if not counts:
            return
        t = self._db.t.pace_share
        rows = [
            {"place": place, "worker": worker, "seen_at": now, **dict(zip(COUNTS, numbers, strict=True))}
            for place, numbers in counts.items()
        ]
        insert = upsert(t).values(rows)
        sums = {name: t.c[name] + insert.excluded[name] for name in COUNTS}
        changes = sums | {"seen_at": insert.excluded.seen_at}
        c.execute(insert.on_conflict_do_update(index_elements=["place", "worker"], set_=changes))

    def _workers(self, c: Connection, now: int, places: Sequence[str] | None = None) -> dict[str, int]:
        """Return how many workers have a share in each place, or in each of some places."""
        t = self._db.t.pace_share
        is_active = and_(t.c.seen_at > now - SEEN_SECONDS * 1000, t.c.worker != NO_WORKER)
        query = select(t.c.place, func.count()).where(is_active)
        if places is not None:
            query = query.where(in_list(t.c.place, places))
        return {place: int(workers) for place, workers in c.execute(query.group_by(t.c.place)).all()}
