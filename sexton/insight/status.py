"""One screen about every instance, from SQL alone; and how far a running round is, range for range."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database
from sexton.insight.views import Checked, InstanceStatus, KindStatus, Overview, Running
from sexton.marks.sql.leases import busy
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.recycle.model import Policy, RoundReport
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.sql.measure import find_kinds, waits
from sexton.recycle.planning.sql.plans import PlanStore
from sexton.recycle.rounds.sql.schedule import RoundSchedule
from sexton.recycle.rounds.sql.store import JOB


class KindProgressRow(NamedTuple):
    """What of one kind went in a round so far."""

    claimed: int
    removed: int
    objects: int


def overview(db: Database, policy: Policy, controls: ControlStore, turns: RoundSchedule, slots: int) -> Overview:
    """Return every instance's status under the policy given; ``slots`` is how many rounds may run at once."""
    instances = tuple(_instance(db, i.id, i.mode, policy, controls, turns) for i in Registry(db).instances())
    lease = db.t.lease
    with db.read() as c:
        held = busy(lease, JOB, db.now(c))
        used = c.execute(select(func.count()).select_from(lease).where(held)).scalar_one()
    return Overview(slots_used=used, slots=slots, instances=instances)


def gone(db: Database, round_: int) -> Mapping[str, KindProgressRow]:
    """Return what went in a round so far, by kind; nothing where the database cannot be asked this moment."""
    t = db.t.tally
    sums = [func.sum(t.c.claimed), func.sum(t.c.removed), func.sum(t.c.deleted + t.c.absent + t.c.hidden)]
    try:
        with db.read() as c:
            rows = c.execute(select(t.c.kind, *sums).where(t.c.round == round_).group_by(t.c.kind)).all()
    except SQLAlchemyError:  # it only feeds a progress bar
        return {}
    return {kind: KindProgressRow(int(claimed), int(removed), int(objects)) for kind, claimed, removed, objects in rows}


def _running(db: Database, c: Connection, instance: str, now: int) -> Running | None:
    lease, round_ = db.t.lease, db.t.round
    taken = and_(lease.c.instance == instance, lease.c.job == JOB, lease.c.state == "BUSY")
    held = c.execute(select(lease.c.acquired_at, lease.c.expires_at).where(taken)).one_or_none()
    newest = select(round_).where(round_.c.instance == instance, round_.c.state == "RUNNING")
    row = c.execute(newest.order_by(round_.c.id.desc()).limit(1)).one_or_none()
    if held is None and row is None:
        return None
    return Running(
        round=row.id if row else None,
        since=row.started_at if row else held.acquired_at,  # type: ignore[union-attr]
        waiting=row.waiting if row else None,
        waiting_since=row.waiting_since if row else None,
        leased=held is not None,
        cut_off=held is not None and held.expires_at <= now,
    )


def _checked(db: Database, c: Connection, instance: str) -> Checked:
    run = db.t.check_run
    mine = run.c.instance == instance
    ended = select(run.c.state, run.c.standing).where(mine, run.c.standing.is_not(None))
    last = c.execute(ended.order_by(run.c.id.desc()).limit(1)).one_or_none()
    whole = select(func.max(run.c.cutoff)).where(mine, run.c.state == "WHOLE")
    running = select(func.max(run.c.cutoff)).where(mine, run.c.state == "RUNNING")
    return Checked(
        lost=last.standing.get("LOST", (0, 0))[1] if last else 0,
        whole=c.execute(whole).scalar_one(),
        running_since=c.execute(running).scalar_one(),
        last=last.state if last else None,
    )


def _kind(db: Database, c: Connection, instance: str, kind: str, policy: Policy, now: int) -> KindStatus:
    mark = db.t.mark
    here = and_(mark.c.instance == instance, mark.c.kind == kind, waits(mark))
    cutoff = rules.cutoff(kind, policy, now)
    waiting, oldest = c.execute(select(func.count(), func.min(mark.c.ages_from)).where(here)).one()
    due, size = c.execute(
        select(func.count(), func.coalesce(func.sum(mark.c.bytes), 0)).where(
            here, mark.c.ages_from <= (cutoff if cutoff is not None else 0)
        )
    ).one()
    note = "" if cutoff is not None else "unknown kind: kept; set kinds.NAME.retention_seconds"
    return KindStatus(kind=kind, waiting=waiting, due=due, due_bytes=size, oldest=oldest, note=note)


def _instance(
    db: Database, name: str, mode: str, policy: Policy, controls: ControlStore, turns: RoundSchedule
) -> InstanceStatus:
    mark, round_, hold, instance = db.t.mark, db.t.round, db.t.hold, db.t.instance
    kinds = find_kinds(db, name)
    planned = turns.next_round(name)
    with db.read() as c:
        now = db.now(c)
        claimed = and_(mark.c.instance == name, mark.c.state == "CLAIMED")
        swept = and_(claimed, mark.c.swept_at.is_not(None))
        aside = and_(mark.c.instance == name, mark.c.quarantined_reason.is_not(None))
        by_reason = select(mark.c.quarantined_reason, func.count()).where(aside).group_by(mark.c.quarantined_reason)
        ended = select(round_.c.report, round_.c.ended_at).where(
            round_.c.instance == name, round_.c.report.is_not(None)
        )
        last = c.execute(ended.order_by(round_.c.id.desc()).limit(1)).one_or_none()
        holding = and_(hold.c.instance == name, hold.c.released_at.is_(None), hold.c.expires_at > now)
        told = (instance.c.failures, instance.c.last_success_at, instance.c.owner)
        row = c.execute(select(*told).where(instance.c.id == name)).one()
        policy = rules.for_owner(policy, row.owner)
        running = _running(db, c, name, now)
        return InstanceStatus(
            instance=name,
            mode=mode,
            now=now,
            running=running,
            next_round=planned if running is None else None,
            halt=controls.halt(c, name),
            failures=row.failures,
            last_success=row.last_success_at,
            holds=c.execute(select(func.count()).select_from(hold).where(holding)).scalar_one(),
            kinds=tuple(_kind(db, c, name, kind, policy, now) for kind in kinds),
            claimed=c.execute(select(func.count()).select_from(mark).where(claimed)).scalar_one(),
            late=c.execute(select(func.count()).select_from(mark).where(swept)).scalar_one(),
            quarantined={str(reason): n for reason, n in c.execute(by_reason)},
            approvals=tuple(PlanStore(db).approvals.waiting(c, name)),
            caps=tuple(PaceStore(db).caps(name)),
            checked=_checked(db, c, name),
            protections=c.execute(select(func.count()).where(db.t.protection.c.instance == name)).scalar_one(),
            last=RoundReport.model_validate(last.report) if last else None,
            last_ended=last.ended_at if last else None,
        )
