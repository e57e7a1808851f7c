"""Count an instance's marks by kind: exactly what is due, and about how many others wait.

Estimates are for people; plans, limits and fractions are counted by ``sexton.recycle.planning.sql.measure``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Text, and_, func, not_, select, text, true, union_all

from sexton.database.engine import Database
from sexton.database.rows import as_rows, sum_of
from sexton.insight.views import KindStatus
from sexton.marks.model import NOTHING_DUE, Cutoff
from sexton.marks.sql.rows import is_due, waits
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Policy
from sexton.recycle.planning.sql.measure import kinds_by_instance

MOST_COUNTED = 10_000
"""Marks of a kind that only wait are counted up to this number; of more, statistics say about how many."""
_ARE_FRESH = text(
    "SELECT relpages > 0 AND pg_relation_size(oid) <= 1.2 * relpages * current_setting('block_size')::int"
    " AND pg_stat_get_mod_since_analyze(oid) <= 0.2 * reltuples"
    " FROM pg_class WHERE oid = 'sexton.mark'::regclass"
)
"""Whether at most a fifth of the marks has changed since their statistics were made, also in the last second."""


def kind_statuses(
    db: Database, c: Connection, policies: Mapping[str, Policy], now: int
) -> tuple[Mapping[str, Sequence[KindStatus]], Mapping[str, int]]:
    """Return the kinds of each instance with their marks, and how many kinds it has beside them, at least."""
    found = kinds_by_instance(db, c, {name: policy.retention_seconds for name, policy in policies.items()})
    kinds = [(name, kind) for name in found for kind in found[name].names]
    counts = count_by_kind(db, c, {(name, kind): rules.cutoff(kind, policies[name], now) for name, kind in kinds})
    many = [pair for pair, count in counts.items() if count.later > MOST_COUNTED]
    estimates = _estimate(db, c, many) if many and c.execute(_ARE_FRESH).scalar_one() else {}
    statuses: dict[str, list[KindStatus]] = {name: [] for name in found}
    for name, kind in kinds:
        policy, count = policies[name], counts[name, kind]
        counted, estimate = count.due + min(count.later, MOST_COUNTED), estimates.get((name, kind), 0)
        is_about = count.later > MOST_COUNTED and estimate > counted
        unset = f"kept: no retention is set for this kind; set kinds.{kind}.retention_seconds"
        status = KindStatus(
            kind=kind,
            waiting=estimate if is_about else counted,
            waiting_is="about" if is_about else "at least" if count.later > MOST_COUNTED else "exact",
            due=count.due,
            due_bytes=count.due_bytes,
            oldest=count.oldest if count.due else count.following,
            due_since=policy.due_at(kind, count.oldest) if count.due else None,
            next_due=None if count.following is None else policy.due_at(kind, count.following),
            note=unset if policy.retention(kind) is None else "",
        )
        statuses[name].append(status)
    return statuses, {name: found[name].more for name in found}


def count_by_kind(
    db: Database, c: Connection, cutoffs: Mapping[tuple[str, str], Cutoff | None]
) -> Mapping[tuple[str, str], Row[Any]]:
    """Return the counts of kinds by (instance, kind), each by two ranges of the index of due marks.

    Columns: ``due``, ``due_bytes``, and when the retention began of the first of these marks (``oldest``); how many
    marks are not due (``later``, counted up to one more than ``MOST_COUNTED``), and when the retention began of the
    first of them (``following``). ``cutoffs``: which marks are due; None: none is.
    """
    # Only ranges of the index: PostgreSQL reads all marks where it expects many to be due, or few to wait.
    mark = db.t.mark
    pairs = [{"instance": i, "kind": kind, "cutoff": cutoff or NOTHING_DUE} for (i, kind), cutoff in cutoffs.items()]
    pair = as_rows(pairs, instance=Text(), kind=Text(), cutoff=BigInteger())
    by_now, started = is_due(mark, func.to_timestamp(pair.c.cutoff / 1000.0)), mark.c.retention_starts_at
    waiting = and_(mark.c.instance == pair.c.instance, mark.c.kind == pair.c.kind, waits(mark))
    in_order = select(started).where(waiting, not_(by_now)).order_by(started, mark.c.id).correlate(pair)
    first = in_order.limit(MOST_COUNTED + 1).lateral()
    # Without bytes, which are in no index: marks that are not due are counted in the index alone.
    of_later = select(func.count().label("later"), func.min(first.c.retention_starts_at).label("following"))
    of_due = select(
        func.count().label("due"), sum_of(mark.c.bytes).label("due_bytes"), func.min(started).label("oldest")
    )
    later, due = of_later.select_from(first).lateral(), of_due.where(waiting, by_now).lateral()
    query = select(pair.c.instance, pair.c.kind, later, due).select_from(pair.join(later, true()).join(due, true()))
    c.exec_driver_sql("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off")
    return {(row.instance, row.kind): row for row in c.execute(query)}


def _estimate(db: Database, c: Connection, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
    """Return about how many marks of kinds wait, to two digits, as PostgreSQL's planner expects; it reads no mark."""
    mark = db.t.mark
    each = (select(mark.c.id).where(mark.c.instance == i, mark.c.kind == kind, waits(mark)) for i, kind in pairs)
    # A limit keeps each query a plan of its own; the last one, that there are at least two.
    query = union_all(*(one.limit(2**62) for one in each), select(mark.c.id).limit(1)).compile(db.engine)
    [plan] = c.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {query}", query.params).scalar_one()
    rows = [int(of_pair["Plan Rows"]) for of_pair in plan["Plan"]["Plans"][:-1]]
    return {pair: round(n, 2 - len(str(n))) for pair, n in zip(pairs, rows, strict=True)}
