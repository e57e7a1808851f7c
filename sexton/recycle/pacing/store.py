"""What the workers know of the places together, as rows, and operators' caps. No guard: nothing is decided here.

An exchange is a handful of statements, however many places there are, in one short transaction; rows are locked in the
order of their names, so that two workers never wait for each other in a circle.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, true
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database, first_line
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.operators.controls.store import whoami
from sexton.recycle.pacing.model import Cap, PaceReport, PaceUpdate, PlaceFigures, Shared
from sexton.recycle.pacing.policy import merged

SEEN_SECONDS = 15
"""A worker that told of a place so lately has a share in it."""
FORGOTTEN_SECONDS = 3_600
"""What a worker not heard of for so long has counted is added up under the name of nobody."""
NOBODY = ""
COUNTS = ("requests", "throttled", "keys")
log = logging.getLogger(__name__)


class PaceStore:
    """Implements ``pace.port.Shares``; also what the command and the metrics use."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def exchange(self, worker: str, told: Sequence[PaceReport]) -> PaceUpdate | None:
        """Tell what happened at each place and hear what all workers know; None where the database does not answer."""
        told = sorted(told, key=lambda one: one.place)
        try:
            with self._db.write() as c:
                now = self._db.now(c)
                shared = self._merge(c, [one for one in told if one.learns], now)
                self._count(c, worker, told, now)
                workers = self._workers(c, now, [one.place for one in told])
                cap = self._db.t.pace_cap
                caps = {(r.instance, r.vault): int(r.keys_per_second) for r in c.execute(select(cap))}
            return PaceUpdate(shared, workers, caps)
        except SQLAlchemyError as e:
            log.warning("the pace is not exchanged now, each worker goes on with its own: %s", first_line(e))
            return None

    def figures(self) -> Sequence[PlaceFigures]:
        """Return every place that has a rate, by name: ``sexton_pace_keys_per_second`` and, of ``throttled``,
        ``sexton_throttled_requests_total``; what was counted only grows."""
        t, share = self._db.t.pace, self._db.t.pace_share
        sums = [func.coalesce(func.sum(share.c[n]), 0).label(n) for n in ("requests", "throttled", "keys")]
        with self._db.read() as c:
            workers = self._workers(c, self._db.now(c))
            counted = {r.place: r for r in c.execute(select(share.c.place, *sums).group_by(share.c.place))}
            return [
                PlaceFigures(
                    **row._mapping,
                    workers=workers.get(row.place, 0),
                    **{n: int(counted[row.place]._mapping[n]) if row.place in counted else 0 for n in COUNTS},
                )
                for row in c.execute(select(t).order_by(t.c.place))
            ]

    def caps(self, instance: str | None = None) -> Sequence[Cap]:
        """Return every cap, or an instance's, by instance and vault."""
        t = self._db.t.pace_cap
        of = true() if instance is None else t.c.instance == instance
        with self._db.read() as c:
            return [Cap(**row._mapping) for row in c.execute(select(t).where(of).order_by(t.c.instance, t.c.vault))]

    def put_cap(self, vault: str, keys_per_second: int, reason: str = "", by: str = "") -> Cap:
        """Bound the deletes in ``VAULT`` or ``INSTANCE/VAULT``, over all workers; a cap that is there is replaced.

        Raises:
            BadInput: there is no such vault, or several instances have one of that name.
        """
        check_text(vault, reason, by)
        t = self._db.t.pace_cap
        with self._db.write() as c:
            instance, name = self._vault(c, vault)
            made = Cap(
                instance=instance,
                vault=name,
                keys_per_second=keys_per_second,
                reason=reason,
                set_by=by or whoami(),
                since=self._db.now(c),
            )
            values = made.model_dump()
            upsert = self._insert(t).values(**values)
            told = {n: values[n] for n in ("keys_per_second", "reason", "set_by", "since")}
            c.execute(upsert.on_conflict_do_update(index_elements=["instance", "vault"], set_=told))
        return made

    def clear_cap(self, vault: str) -> tuple[str, bool]:
        """Take a cap back; return ``INSTANCE/VAULT`` and whether there was one. Raises as ``put_cap`` does."""
        check_text(vault)
        t = self._db.t.pace_cap
        with self._db.write() as c:
            instance, name = self._vault(c, vault)
            gone = c.execute(delete(t).where(t.c.instance == instance, t.c.vault == name)).rowcount == 1
        return f"{instance}/{name}", gone

    def _vault(self, c: Connection, named: str) -> tuple[str, str]:
        t = self._db.t.vault
        instance, _, name = named.rpartition("/")
        wanted = and_(t.c.name == name, t.c.instance == instance if instance else true())
        found = c.execute(select(t.c.instance, t.c.name).where(wanted).order_by(t.c.instance)).all()
        if not found:
            raise BadInput(f"there is no vault {named}; see: sexton vault list")
        if len(found) > 1:
            raise BadInput(
                f"several instances have a vault {named}; name one: {', '.join(f'{i}/{v}' for i, v in found)}"
            )
        return found[0].instance, found[0].name

    def _merge(self, c: Connection, told: Sequence[PaceReport], now: int) -> Mapping[str, Shared]:
        """Put what one worker learned on top of what is known, and return that."""
        t = self._db.t.pace
        its = select(t).where(in_list(self._db, t.c.place, [one.place for one in told])).order_by(t.c.place)
        found = {r.place: Shared(**r._mapping) for r in c.execute(its.with_for_update())}
        shared = {one.place: merged(found.get(one.place), one, now) for one in told}
        changed = [{"place": p, **row.model_dump()} for p, row in shared.items() if row != found.get(p)]
        for known in (True, False):
            rows = [row for row in changed if (row["place"] in found) is known]
            if not rows:
                continue
            upsert = self._insert(t).values(rows)
            mine = {n: upsert.excluded[n] for n in Shared.model_fields}
            # Another worker may be the first at a new place this moment: its row is heard of at the next exchange.
            c.execute(
                upsert.on_conflict_do_update(index_elements=["place"], set_=mine)
                if known
                else upsert.on_conflict_do_nothing()
            )
        return shared

    def _count(self, c: Connection, worker: str, told: Sequence[PaceReport], now: int) -> None:
        self._add(c, worker, now, {one.place: (one.requests, one.throttled, one.keys) for one in told})
        t = self._db.t.pace_share
        old = and_(t.c.seen_at < now - FORGOTTEN_SECONDS * 1000, t.c.worker != NOBODY)
        sums: dict[str, tuple[int, ...]] = {}
        for row in c.execute(delete(t).where(old).returning(t.c.place, *[t.c[n] for n in COUNTS])):
            sums[row[0]] = tuple(a + b for a, b in zip(sums.get(row[0], (0, 0, 0)), row[1:], strict=True))
        self._add(c, NOBODY, now, dict(sorted(sums.items())))

    def _add(self, c: Connection, worker: str, now: int, counts: Mapping[str, Sequence[int]]) -> None:
        """Add counts by place to a worker's rows."""
        if not counts:
            return
        t = self._db.t.pace_share
        rows = [
            {"place": p, "worker": worker, "seen_at": now, **dict(zip(COUNTS, n, strict=True))}
            for p, n in counts.items()
        ]
        upsert = self._insert(t).values(rows)
        more = {n: t.c[n] + upsert.excluded[n] for n in COUNTS} | {"seen_at": upsert.excluded.seen_at}
        c.execute(upsert.on_conflict_do_update(index_elements=["place", "worker"], set_=more))

    def _workers(self, c: Connection, now: int, places: Sequence[str] | None = None) -> dict[str, int]:
        t = self._db.t.pace_share
        seen = select(t.c.place, func.count()).where(t.c.seen_at > now - SEEN_SECONDS * 1000, t.c.worker != NOBODY)
        if places is not None:
            seen = seen.where(in_list(self._db, t.c.place, places))
        return {place: int(n) for place, n in c.execute(seen.group_by(t.c.place)).all()}

    def _insert(self, table: Any) -> Any:
        return (postgresql if self._db.dialect == "postgresql" else sqlite).insert(table)
