"""Read every instance with the counts of what belongs to it: one statement, a few look-ups for each instance."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import JSON, ColumnElement, Connection, Row, Table, func, select, true

from sexton.check.model import RunState
from sexton.database.engine import Database, now_once
from sexton.marks.sql.leases import busy
from sexton.marks.sql.rows import CLAIMED
from sexton.operators.stores import OperatorStores
from sexton.protection.model import ProtectionState
from sexton.recycle.model import DAY_MS, JOB
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning.sql.approvals import ApprovalStore
from sexton.recycle.rounds.sql.reports import RUNNING
from sexton.recycle.rounds.sql.schedule import RoundSchedule


class InsightStores(NamedTuple):
    """Where status, metrics and explanations get their facts, beside the rows that they read themselves."""

    operators: OperatorStores
    """Instances, vaults, stops, lists, windows and holds."""
    schedule: RoundSchedule
    """When each instance has its next round."""
    approvals: ApprovalStore
    """Plans that wait for approval."""
    paces: PaceStore
    """How fast each place is deleted from, and operators' caps."""


def read_instances(db: Database, c: Connection, only: str | None = None) -> Sequence[Row[Any]]:
    """Return the rows of one instance or of all, in the order of their names.

    Columns: those of ``instance``; ``now``; ``slots_used``, the leases in use over all instances; ``report`` and
    ``ended_at`` of the newest round that has a report; ``open_counts``, ``evidence`` and ``check_state`` of the last
    check that has ended; the others as in ``InstanceFigures``. Instants are ms since 1970.
    """
    instance, round_, run = db.t.instance, db.t.round, db.t.check_run
    newest_round = _newest(db, round_.alias(), "report")
    last_check = _newest(db, run.alias(), "open_counts")
    query = select(
        instance,
        now_once().label("now"),
        select(func.count()).where(busy(db.t.lease, JOB)).scalar_subquery().label("slots_used"),
        round_.c.report,
        round_.c.ended_at,
        run.c.open_counts,
        run.c.evidence,
        run.c.state.label("check_state"),
        *_counts(db),
    )
    with_newest = instance.outerjoin(round_, round_.c.id == newest_round).outerjoin(run, run.c.id == last_check)
    is_selected = true() if only is None else instance.c.id == only
    return c.execute(query.select_from(with_newest).where(is_selected).order_by(instance.c.id)).all()


def _newest(db: Database, table: Any, filled: str) -> ColumnElement[int]:
    """Return the number of an instance's newest row in which a column has a value."""
    instance = db.t.instance
    rows = select(table.c.id).where(table.c.instance == instance.c.id, table.c[filled].is_not(None))
    return rows.order_by(table.c.id.desc()).limit(1).correlate(instance).scalar_subquery()


def _counts(db: Database) -> Iterator[ColumnElement[Any]]:
    """Yield the columns that are counted in other tables."""
    t, instance = db.t, db.t.instance

    def of(table: Table, value: ColumnElement[Any], *conditions: ColumnElement[bool]) -> ColumnElement[Any]:
        rows = select(value).select_from(table).where(table.c.instance == instance.c.id, *conditions)
        return rows.correlate(instance).scalar_subquery()

    number = func.count()
    yield of(t.mark, number, t.mark.c.state == CLAIMED).label("claimed")
    second_pass = of(t.mark, number, t.mark.c.state == CLAIMED, t.mark.c.first_pass_at.is_not(None))
    yield second_pass.label("awaiting_second_pass")
    # Quarantined marks by reason, as JSON: one range of the index.
    reason = t.mark.c.quarantined_reason
    counted = select(reason.label("reason"), number.label("marks")).group_by(reason)
    counted = counted.where(t.mark.c.instance == instance.c.id, reason.is_not(None))
    by_reason = counted.correlate(instance).subquery()
    as_json = func.json_object_agg(by_reason.c.reason, by_reason.c.marks, type_=JSON())
    yield select(as_json).scalar_subquery().label("quarantined")
    active = t.hold.c.released_at.is_(None), t.hold.c.expires_at > now_once()
    yield of(t.hold, number, *active).label("holds")
    yield of(t.hold, func.min(t.hold.c.placed_at), *active).label("oldest_hold")
    recent = t.batch.c.limited_objects > 0, t.batch.c.claimed_at > now_once(-DAY_MS)
    yield of(t.batch, func.coalesce(func.sum(t.batch.c.limited_objects), 0), *recent).label("unasked_objects")
    soft = t.protection.c.state == ProtectionState.SOFT
    yield of(t.protection, number, ~soft).label("protections")
    yield of(t.protection, number, soft).label("soft_protections")
    yield of(t.protection, func.min(t.protection.c.registered_at)).label("oldest_protection")
    run, began = t.check_run, func.max(t.check_run.c.cutoff)
    yield of(run, began, run.c.state == RunState.WHOLE).label("whole_check")
    yield of(run, began, run.c.state == RUNNING).label("check_since")
