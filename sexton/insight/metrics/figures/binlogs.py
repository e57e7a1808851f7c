"""Binlogs, journals and replicas in numbers: ten statements, whatever the number of instances, logs and replicas.

Of replicas only those are read with which something is the matter, each kind through an index of its own. Rows of the
answers: one for each instance, and one for each backend that has something to do.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, case, func, or_, select

from sexton.database.engine import Database
from sexton.database.tables import Tables
from sexton.insight.metrics import labels
from sexton.insight.metrics.model import BinlogFigures
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import need

Found = dict[str, Any]
ASKED = 100_000
"""Of so many copies that are behind it is asked whether a copy of their tablet keeps something: half a second."""


class _View(NamedTuple):
    """What is read: the tables, in a transaction, at an instant."""

    t: Tables
    c: Connection
    now: int


def figures(db: Database, c: Connection, now: int) -> Sequence[BinlogFigures]:
    """Return the figures as a transaction sees them, by instance."""
    view = _View(db.t, c, now)
    found: defaultdict[str, Found] = defaultdict(lambda: {"unwell": dict.fromkeys(labels.STATES, 0)})
    for read in (_rounds, _logs, _consumers, _journal, _backends, _behind, _blocked, _unwell, _stale, _aside):
        for instance, its in read(view):
            unwell = found[instance]["unwell"] | its.get("unwell", {})
            found[instance] |= {**its, "unwell": unwell}
    return [BinlogFigures(instance=instance, **its) for instance, its in sorted(found.items())]


def _rounds(v: _View) -> Iterator[tuple[str, Found]]:
    t, i = v.t.binlog_round, v.t.instance
    asked = select(t.c.instance, t.c.ok_at, t.c.refusals, t.c.cuts, i.c.mode, i.c.enabled_at)
    for r in v.c.execute(asked.join(i, i.c.id == t.c.instance)):
        quiet = max(r.ok_at or 0, r.enabled_at or 0) or None
        its = {"refusals": r.refusals, "cuts": r.cuts}
        yield r.instance, its | {"quiet_since": quiet if r.mode == "enabled" else None}


def _logs(v: _View) -> Iterator[tuple[str, Found]]:
    t = v.t.binlog_log
    own = t.alias("own")
    of_it = and_(own.c.instance == t.c.instance, own.c.db == t.c.db, own.c.tbl == "")
    kept = and_(t.c.enabled, t.c.dropped_at.is_(None), or_(t.c.tbl == "", own.c.enabled.is_(False)))
    asked = select(
        t.c.instance,
        func.count().label("logs"),
        func.sum(t.c.records - t.c.gone_records).label("records"),
        func.sum(t.c.bytes - t.c.gone_bytes).label("bytes"),
        func.count(t.c.held_since).label("held"),
        func.min(t.c.held_since).label("held_since"),
        func.count(t.c.wants_since).label("waiting"),
        func.min(t.c.wants_since).label("waiting_since"),
    )
    for r in v.c.execute(asked.join(own, of_it).where(kept).group_by(t.c.instance)):
        yield _of(r, records=int(r.records), bytes=int(r.bytes))


def _consumers(v: _View) -> Iterator[tuple[str, Found]]:
    t = v.t.binlog_consumer
    asked = select(t.c.instance, func.count().label("consumers"), func.count(t.c.lost_at).label("lost_consumers"))
    for r in v.c.execute(asked.group_by(t.c.instance)):
        yield _of(r)


def _journal(v: _View) -> Iterator[tuple[str, Found]]:
    head, t = v.t.journal_head, v.t.journal_follower
    slowest = func.min(case((t.c.lost_at.is_(None), t.c.applied), else_=None))
    asked = select(
        head.c.instance,
        (head.c.seq - head.c.trimmed).label("entries"),
        func.count(t.c.name).label("followers"),
        func.count(t.c.lost_at).label("lost_followers"),
        func.coalesce(head.c.seq - slowest, 0).label("lag"),
    )
    both = head.outerjoin(t, t.c.instance == head.c.instance)
    for r in v.c.execute(asked.select_from(both).group_by(head.c.instance, head.c.seq, head.c.trimmed)):
        yield _of(r)


def _backends(v: _View) -> Iterator[tuple[str, Found]]:
    t = v.t.backend
    for r in v.c.execute(select(t.c.instance, func.count().label("backends")).group_by(t.c.instance)):
        yield _of(r)


def _unwell(v: _View) -> Iterator[tuple[str, Found]]:
    t = v.t.replica
    wrong = or_(t.c.bad_since.is_not(None), t.c.gap_since.is_not(None))
    # Bad wins: of what cannot be read nobody asks which version is missing.
    gap = and_(t.c.bad_since.is_(None), t.c.gap_since.is_not(None))
    marked = and_(gap, t.c.failed >= 0)
    asked = select(
        t.c.instance,
        func.count(t.c.bad_since).label("bad"),
        func.count(case((gap, 1))).label("gap"),
        func.count(case((marked, 1))).label("missing"),
        func.min(t.c.bad_since).label("bad_since"),
        func.min(case((marked, t.c.gap_since))).label("missing_since"),
    )
    for r in v.c.execute(asked.where(wrong, t.c.dropped.is_(False)).group_by(t.c.instance)):
        states = {"bad": r.bad, "gap": r.gap, "missing": r.missing}
        yield r.instance, {"unwell": states, "bad_since": r.bad_since, "missing_since": r.missing_since}


def _stale(v: _View) -> Iterator[tuple[str, Found]]:
    t = v.t.replica
    counts = and_(t.c.fresh_until <= v.now, t.c.full_copy == "", t.c.dropped.is_(False))
    for r in v.c.execute(select(t.c.instance, func.count().label("stale")).where(counts).group_by(t.c.instance)):
        yield r.instance, {"unwell": {"stale": r.stale}}


def _aside(v: _View) -> Iterator[tuple[str, Found]]:
    """Yield who no longer counts, who crosses, and of whom a backend told a problem."""
    t = v.t.replica
    aside = or_(t.c.full_copy != "", t.c.problem != "", t.c.crossing)
    standing = t.c.dropped.is_(False)
    told = [func.count(case((t.c.problem.like(f"{o}%"), 1))).label(f"p_{o}") for o in labels.OUTCOMES[:-1]]
    asked = select(
        t.c.instance,
        func.count(case((and_(standing, t.c.full_copy == BY_LIMIT), 1))).label("limit"),
        func.count(case((and_(standing, t.c.full_copy.not_in(("", BY_LIMIT))), 1))).label("person"),
        func.count(case((and_(standing, t.c.crossing), 1))).label("crossing"),
        func.count(case((t.c.problem != "", 1))).label("p_any"),
        *told,
    )
    for r in v.c.execute(asked.where(aside).group_by(t.c.instance)):
        states = {"full_copy_by_limit": r.limit, "full_copy_by_person": r.person, "crossing": r.crossing}
        problems = {o: getattr(r, f"p_{o}") for o in labels.OUTCOMES[:-1]}
        yield r.instance, {"unwell": states, "problems": problems | {labels.OTHER: r.p_any - sum(problems.values())}}


def _behind(v: _View) -> Iterator[tuple[str, Found]]:
    """Yield of how many copies something should go, and whose they are."""
    t, b = v.t.replica, v.t.backend
    per = select(t.c.instance, t.c.backend, func.count().label("behind")).where(t.c.desired > t.c.acked)
    its = per.group_by(t.c.instance, t.c.backend).subquery()
    asked = select(
        its.c.instance,
        func.count().label("behind_backends"),
        (func.count() - func.count(b.c.pulled_at)).label("unheard_backends"),
        func.min(b.c.pulled_at).label("pulled_since"),
        func.sum(its.c.behind).label("behind"),
    )
    both = its.outerjoin(b, and_(b.c.instance == its.c.instance, b.c.name == its.c.backend))
    for r in v.c.execute(asked.select_from(both).group_by(its.c.instance)):
        yield _of(r, behind=int(r.behind))


def _blocked(v: _View) -> Iterator[tuple[str, Found]]:
    """Yield of how many of these a copy of their tablet keeps something."""
    t = v.t.replica
    # What was granted stays granted, so of these nobody need be asked.
    due = and_(t.c.desired > t.c.acked, t.c.granted < t.c.desired, t.c.dropped.is_(False))
    some = select(t.c.instance, t.c.tablet, t.c.desired).where(due).limit(ASKED).subquery()
    copy = t.alias("copy")
    of_it = and_(copy.c.instance == some.c.instance, copy.c.tablet == some.c.tablet, copy.c.dropped.is_(False))
    lowest = select(func.coalesce(func.min(need(copy, v.now)), 0)).where(of_it).scalar_subquery()
    kept = select(some.c.instance, func.count().label("blocked")).where(lowest <= some.c.desired)
    for r in v.c.execute(kept.group_by(some.c.instance)):
        yield _of(r)


def _of(row: Row[Any], **more: int) -> tuple[str, Found]:
    """Return a row as what it says of its instance."""
    its = {**row._mapping, **more}
    return its.pop("instance"), its
