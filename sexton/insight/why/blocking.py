"""List everything that blocks the deletion of one mark now, when it falls due, and when the next round starts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import or_, select

from sexton.database.engine import Database
from sexton.insight.status import InsightStores
from sexton.kernel.live import Live
from sexton.marks.kept import Event, vault_way_out
from sexton.marks.model import Candidate, DueMark, Expansion, InstanceMode, Ref
from sexton.marks.policy import is_due, known_places
from sexton.operators.controls.policy import halt, vault_allowed, vault_whitelist
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Plan, PlanState, Policy
from sexton.recycle.rounds.sql.reports import Reports

if TYPE_CHECKING:
    from sexton.recycle.audit.store import AuditReader


class WhyContext(NamedTuple):
    """Where explanations get their facts, beside the rows of marks and of history."""

    policy: Policy | Live[Policy]
    """The settings in force, which decide whether a mark is due."""
    stores: InsightStores
    """Instances, what operators ordered, plans that wait, and when rounds start."""
    owner: Owner
    """Answers what is live, and which files a mark stands for."""
    audit: "AuditReader"
    """The deletion log: what became of each object, also after SQL has deleted its rows."""


MARK_COLUMNS = ("kind", "id", "retention_starts_at", "vault", "prefix", "keys", "bytes")


def unclaimed_events(db: Database, mark_row: Any, context: WhyContext, now: int) -> Iterator[Event]:
    """Yield when an unclaimed mark falls due, what blocks its deletion now (ms since 1970), and the next round."""
    yield from keeper_events(mark_row, context)
    owner = context.stores.operators.registry.instance(mark_row.instance).owner
    policy = rules.for_owner(Live.of(context.policy)(mark_row.instance), owner)
    due_at = policy.due_at(mark_row.kind, mark_row.retention_starts_at)
    if due_at is None:
        yield Event(event="no_retention", text="kept: no retention is set for this kind")
        return
    if due_at > now:
        yield Event(at=due_at, event="falls_due", text="falls due; until then undrop is possible")
        return
    yield Event(at=due_at, event="due", text="due")
    approvals = list(_approval_events(db, mark_row, now))
    yield from approvals
    yield from _live_events(mark_row, context)
    if (expansion := _expand(mark_row, context)) is not None and expansion.waits:
        yield Event(event="waits", text=f"kept: it waits for {expansion.waits}")
    blocking = list(blocking_events(db, mark_row, context, now))
    yield from blocking
    observes = any(event.event == "observe" for event in blocking)
    is_blocked = observes or any(event.blocks for event in (*approvals, *blocking))
    if mark_row.quarantined_reason is None and not is_blocked:
        next_round_at = context.stores.schedule.next_round(mark_row.instance)
        if next_round_at is not None and next_round_at > now:
            text = "the next round starts, if the schedule is active"
            yield Event(at=next_round_at, event="next_round", text=text)
        else:
            text = "the next round is due: it starts as soon as a slot is free, if the schedule is active"
            yield Event(event="next_round", text=text)


def blocking_events(db: Database, mark_row: Any, context: WhyContext, now: int) -> Iterator[Event]:
    """Yield what blocks or slows deletion of a mark's files, claimed or not: mode, halt, whitelist, cap, fault."""
    with db.read() as c:
        controls = context.stores.operators.controls.all_in(c)
    stopped = halt(controls, mark_row.instance, now)
    whitelist = vault_whitelist(controls)
    if context.stores.operators.registry.instance(mark_row.instance).mode == InstanceMode.OBSERVE:
        text = f"kept: {mark_row.instance} only observes; run: sexton enable {mark_row.instance}"
        yield Event(event="observe", text=text)
    if stopped is not None:
        yield Event(at=stopped.since or 0, event=f"halted_{stopped.by}", text=f"kept: {stopped}", blocks=True)
    if mark_row.vault and not vault_allowed(whitelist, mark_row.instance, mark_row.vault):
        text = (
            f"kept: vault {mark_row.vault} is not on the vault whitelist ({', '.join(sorted(whitelist))}); "
            f"to add it: sexton lists add vaults {mark_row.instance}/{mark_row.vault}"
        )
        yield Event(event="vault_whitelist", text=text)
    for cap in context.stores.paces.caps(mark_row.instance):
        if cap.vault == mark_row.vault:
            text = f"deletion in its vault is capped at {cap.keys_per_second:,} keys/s; see: sexton pace"
            yield Event(at=cap.since, event="paced", text=text)
    # What stopped the newest round: the pause in which it still waits, or a fault of the mark's vault.
    for newest in Reports(db).rounds(mark_row.instance, last=1):
        if newest.waiting:
            text = f"round {newest.id} waits: {newest.waiting}; see: sexton blockers {mark_row.instance}"
            yield Event(at=newest.waiting_since or 0, event="round_waits", text=text)
        if newest.report and (fault := newest.report.vault_fault(str(mark_row.vault))):
            see = vault_way_out(newest.report.vaults[mark_row.vault], mark_row.instance)
            text = f"round {newest.id} had a fault in vault {mark_row.vault}: {fault}; see: {see}"
            yield Event(at=newest.ended_at or 0, event="vault_fault", text=text)


def keeper_events(mark_row: Any, context: WhyContext, *, claimed: bool = False) -> Iterator[Event]:
    """Yield what keepers say about a mark now; ``claimed``: only those that judge second passes, too."""
    due, expansion = _due_mark(mark_row), _expand(mark_row, context)
    stands_for = expansion or Expansion()
    mark = Candidate(
        due.ref,
        children=frozenset() if stands_for.absorbs else None,
        ancestors=frozenset(stands_for.above),
        versions=stands_for.versions,
        retention_starts_at=mark_row.retention_starts_at,
        places=known_places(due, expansion),
    )
    for keeper in context.stores.keepers:
        if not (claimed and keeper.for_claims_only):
            yield from keeper.explain(mark_row.instance, mark)


def _approval_events(db: Database, mark_row: Any, now: int) -> Iterator[Event]:
    """Yield the plans that contain this mark and await approval."""
    t = db.t.plan
    awaiting = select(t.c.id, t.c.created_at, t.c.awaits, t.c.expires_at, t.c.body).where(
        t.c.instance == mark_row.instance,
        t.c.awaits.is_not(None),
        t.c.state == PlanState.PLANNED,
        or_(t.c.expires_at.is_(None), t.c.expires_at > now),
    )
    with db.read() as c:
        plan_rows = c.execute(awaiting.order_by(t.c.id)).all()
    for plan_row in plan_rows:
        plan = Plan.model_validate(plan_row.body | {"id": plan_row.id})
        started, of_kind = mark_row.retention_starts_at, [k for k in plan.kinds if k.kind == mark_row.kind]
        if not any(is_due(started, k.cutoff) and not is_due(started, k.since) for k in of_kind):
            continue
        text = f"kept: plan {plan.id}, which contains it, awaits approval: {plan_row.awaits}"
        yield Event(at=plan_row.created_at, event="awaits_approval", text=text, blocks=True)
        if plan_row.expires_at is not None:
            yield Event(at=plan_row.expires_at, event="approval_ends", text=f"plan {plan.id} expires")


def _live_events(mark_row: Any, context: WhyContext) -> Iterator[Event]:
    try:
        for rows in context.owner.live(mark_row.instance, [_due_mark(mark_row)], lambda: None).values():
            row_names = f": {rows}" if rows else ""
            yield Event(event="live", text=f"kept: its owner lists it as live{row_names}")
    except OwnerSilent as e:
        yield Event(event="owner_silent", text=f"kept: {e}")


def _expand(mark_row: Any, context: WhyContext) -> Expansion | None:
    """Return what a mark stands for, as its owner expands it; None: it does not, or does not answer."""
    try:
        expansions = context.owner.expand(mark_row.instance, [_due_mark(mark_row)], lambda: None)
    except OwnerSilent:  # _live_events reports it
        return None
    return expansions.get(Ref(mark_row.kind, mark_row.id))


def _due_mark(mark_row: Any) -> DueMark:
    # Of an orphan: without its ETags no owner knows it as one.
    etags, written = (tuple(mark_row._mapping[column] or ()) for column in ("etags", "written"))
    return DueMark(**{column: mark_row._mapping[column] for column in MARK_COLUMNS}, etags=etags, written=written)
