"""One screen about every instance, from SQL alone."""

from sqlalchemy import and_, func, select

from sexton.db.engine import Database
from sexton.marks.store import MarkStore
from sexton.message import Message
from sexton.recycle import policy as rules
from sexton.recycle.model import Policy, RoundReport
from sexton.registry.store import Registry


class KindStatus(Message):
    """Marks of one kind that are not claimed."""

    kind: str
    waiting: int
    due: int
    due_bytes: int
    oldest: int | None
    note: str = ""


class InstanceStatus(Message):
    """One instance at a glance; instants in ms since 1970."""

    instance: str
    mode: str
    busy_since: int | None
    kinds: tuple[KindStatus, ...]
    claimed: int
    late: int
    quarantined: dict[str, int]
    last: RoundReport | None
    last_ended: int | None


def overview(db: Database, policy: Policy) -> list[InstanceStatus]:
    """Return every instance's status under the policy given."""
    return [_instance(db, i.id, i.mode, policy) for i in Registry(db).instances()]


def _instance(db: Database, name: str, mode: str, policy: Policy) -> InstanceStatus:
    mark, lease, round_ = db.t.mark, db.t.lease, db.t.round
    kinds = MarkStore(db).kinds(name)
    with db.read() as c:
        now = db.now(c)
        found = []
        for kind in kinds:
            here = and_(mark.c.instance == name, mark.c.kind == kind, mark.c.state == "MARKED")
            here = and_(here, mark.c.quarantined_reason.is_(None))
            cutoff = rules.cutoff(kind, policy, now)
            waiting, oldest = c.execute(select(func.count(), func.min(mark.c.ages_from)).where(here)).one()
            due, size = c.execute(
                select(func.count(), func.coalesce(func.sum(mark.c.bytes), 0)).where(
                    here, mark.c.ages_from <= (cutoff if cutoff is not None else 0)
                )
            ).one()
            note = "" if cutoff is not None else "unknown kind: kept; set kinds.NAME.retention_seconds"
            found.append(KindStatus(kind=kind, waiting=waiting, due=due, due_bytes=size, oldest=oldest, note=note))
        claimed = and_(mark.c.instance == name, mark.c.state == "CLAIMED")
        swept = and_(claimed, mark.c.swept_at.is_not(None))
        aside = and_(mark.c.instance == name, mark.c.quarantined_reason.is_not(None))
        by_reason = select(mark.c.quarantined_reason, func.count()).where(aside).group_by(mark.c.quarantined_reason)
        last = c.execute(
            select(round_.c.report, round_.c.ended_at)
            .where(round_.c.instance == name, round_.c.report.is_not(None))
            .order_by(round_.c.id.desc())
            .limit(1)
        ).one_or_none()
        busy = select(lease.c.acquired_at).where(lease.c.instance == name, lease.c.state == "BUSY")
        return InstanceStatus(
            instance=name,
            mode=mode,
            busy_since=c.execute(busy.where(lease.c.expires_at > now)).scalars().first(),
            kinds=tuple(found),
            claimed=c.execute(select(func.count()).where(claimed)).scalar_one(),
            late=c.execute(select(func.count()).where(swept)).scalar_one(),
            quarantined=dict(c.execute(by_reason).tuples().all()),
            last=RoundReport.model_validate(last.report) if last else None,
            last_ended=last.ended_at if last else None,
        )
