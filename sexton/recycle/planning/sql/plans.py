"""Plans, as rows: what a round may delete, fixed before it begins, and what of it waits for a person."""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, insert, select, update

from sexton.database.engine import Database
from sexton.marks import keepers
from sexton.owners.port import OwnerSilent
from sexton.recycle.model import Plan, Policy
from sexton.recycle.pipeline.port import PlanRefused
from sexton.recycle.pipeline.sql.store import MarkStore
from sexton.recycle.planning import limits
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.limits import Allowance, DueKind
from sexton.recycle.planning.sql.approvals import EXPIRES_MS, Approvals
from sexton.recycle.planning.sql.measure import InstancePolicy, Measure, terms_of

Live = Callable[[], int | None] | int | None
"""How many objects are live, or what tells it."""


class PlanStore(Approvals):
    """Make and find plans."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def plan(self, instance: str, policy: Policy, by: str, *, live: Live = None, split: bool = True) -> Plan:
        """Fix cutoffs and counts and store them; what it costs follows what is due.

        Args:
            instance: the instance. Where it only observes nothing waits for a person: nothing goes.
            policy: the settings'.
            by: who plans.
            live: the owner's fresh count of live objects, or a callable that asks for it.
            split: for a round: what nobody has agreed to is left out of it, and waits in a plan of its own. Otherwise a
                person will look at the plan and apply it, so it has everything that is due.

        Raises:
            UnknownInstance: no such instance.
        """
        kinds = MarkStore(self._db).kinds(instance)
        with self._db.read() as c:
            terms, now = terms_of(self._db, c, instance, policy), self._db.now(c)
            measure = Measure(self._db, c, instance, terms.policy)
            due, held = _due(measure, terms, kinds, now)
            held |= {f"{keepers.QUARANTINED}{reason}": n for reason, n in measure.aside().items()}
            used, claimed, stopped = measure.used(now), measure.claimed(now), set(measure.stopped())
            rejected = self._rejected(c, instance, now)
            stopped |= {k.kind for p in self._open(c, instance, now) for k in p.kinds if k.stopped}
        asks = any(d.whole.limited and d.whole.marks for d in due)
        limit = _limit(terms.policy, live) if asks else None
        go, wait = limits.divide(due, limit, used, stopped, rejected)
        plan = Plan(instance=instance, created_at=now, policy=terms.policy, held=held, claimed=claimed)
        with self._db.write() as c:
            if not (split and terms.enabled):
                reasons = {k.kind: k.awaits for k in wait if terms.enabled}
                named = (d.whole.model_copy(update={"awaits": reasons.get(d.whole.kind, "")}) for d in due)
                whole = {"kinds": tuple(k for k in named if k.marks), "whole": terms.enabled}
                return self._store(c, plan.model_copy(update=whole), by)
            waiting = plan.model_copy(update={"kinds": tuple(wait), "held": {}, "whole": True})
            if number := self._await(c, waiting, by):
                held[keepers.approval(number)] = waiting.marks
            # While a mark waits that was made under the longer one, a shorter retention is not agreed to.
            short = limits.shortened(terms.agreed or {}, terms.policy.retention_seconds)
            self._agree_at_once(c, terms, [kind for kind in kinds if kind in short])
            mine = {"kinds": tuple(go), "held": held, "allowance": limit and limit.objects}
            return self._store(c, plan.model_copy(update=mine), by)

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan, or raise ``PlanRefused``. One that a person applies knows no limit."""
        t = self._db.t.plan
        with self._db.read() as c:
            row = c.execute(select(t.c.body, t.c.approved_at).where(t.c.id == plan)).one_or_none()
        if row is None:
            raise PlanRefused(f"there is no plan {plan}; make one: sexton plan INSTANCE")
        found = Plan.model_validate(row.body | {"id": plan})
        return found if row.approved_at is None else found.model_copy(update={"allowance": None})

    def cutoffs(self, instance: str, policy: Policy) -> Mapping[str, int]:
        """Return the latest ``ages_from`` of each kind that is due now by a retention that somebody has agreed to.

        By a retention that was shortened, and that nobody has agreed to yet, no owner may expand or time out anything.
        """
        with self._db.read() as c:
            terms, now = terms_of(self._db, c, instance, policy), self._db.now(c)
        agreed = limits.shortened(terms.agreed or {}, terms.policy.retention_seconds)
        return {k: now - 1000 * agreed.get(k, seconds) for k, seconds in terms.policy.retention_seconds.items()}

    def agree_first(self, instance: str, policy: Policy) -> None:
        """Take a policy as agreed to, where none is yet: whoever enables an instance knows the settings of the day."""
        with self._db.write() as c:
            terms = terms_of(self._db, c, instance, policy)
            if terms.agreed is None:
                self._agree_at_once(c, terms, ())

    def _agree_at_once(self, c: Connection, terms: InstancePolicy, disputed: Sequence[str]) -> None:
        """Take the policy as agreed, but for kinds that somebody must be asked about; the first one as it is."""
        agreed = dict(terms.agreed or {})
        wanted = agreed | {k: s for k, s in terms.policy.retention_seconds.items() if k not in disputed}
        if terms.agreed is None or wanted != agreed:
            t = self._db.t.instance
            c.execute(update(t).where(t.c.id == terms.instance).values(retentions=wanted))

    def _await(self, c: Connection, waiting: Plan, by: str) -> int | None:
        """Return the plan that waits for a person: one made before that is still right, or this one; None: nothing.

        Every other one of the instance expires now: a person must not be shown what is not so any more.
        """
        t = self._db.t.plan
        open_ = self._open(c, waiting.instance, waiting.created_at, lock=True)
        kept = next((p for p in open_ if self._still(c, p, waiting)), None)
        others = [p.id for p in open_ if kept is None or p.id != kept.id]
        since = self._since(c, waiting) if kept is None and waiting.kinds else None
        if others:
            c.execute(update(t).where(t.c.id.in_(others)).values(expires_at=waiting.created_at))
        if kept is not None:
            return self._narrow(c, kept, waiting)
        if not waiting.kinds:
            return None
        made = self._store(c, waiting.model_copy(update={"awaits_since": since}), by)
        why = "; ".join(k.awaits for k in made.kinds)
        out = f"sexton apply {made.id}, to keep it: sexton plan --reject {made.id}"
        made = made.model_copy(update={"awaits": f"{why}; look at it and let it go with: {out}"})
        values = {"awaits": made.awaits, "expires_at": waiting.created_at + EXPIRES_MS, "body": made.model_dump()}
        c.execute(update(t).where(t.c.id == made.id).values(**values))
        return made.id

    def _still(self, c: Connection, old: Plan, waiting: Plan) -> bool:
        """Return whether an open plan has the kinds that wait now, by the same policy, and its marks are the same."""
        parts = {k.kind: k.since > 0 for k in waiting.kinds}
        if old.policy.version != waiting.policy.version or parts != {k.kind: k.since > 0 for k in old.kinds}:
            return False
        measure = Measure(self._db, c, old.instance, waiting.policy)
        return not limits.difference(old.kinds, [measure.again(k) for k in old.kinds])

    def _narrow(self, c: Connection, old: Plan, waiting: Plan) -> int:
        """Leave out of a plan what has fallen due by the agreed retention meanwhile: this round takes it."""
        since = {k.kind: k.since for k in waiting.kinds}
        measure = Measure(self._db, c, old.instance, waiting.policy)
        late = {k.kind: k.model_copy(update={"since": since[k.kind]}) for k in old.kinds if since[k.kind] > k.since}
        if late:
            fresh = {k: measure.again(v).model_copy(update={"awaits": v.awaits}) for k, v in late.items()}
            kinds = tuple(fresh.get(k.kind, k) for k in old.kinds)
            t = self._db.t.plan
            body = old.model_copy(update={"kinds": kinds}).model_dump()
            c.execute(update(t).where(t.c.id == old.id).values(body=body))
        return old.id

    def _store(self, c: Connection, plan: Plan, by: str) -> Plan:
        values = {"instance": plan.instance, "created_at": plan.created_at, "state": "PLANNED", "planned_by": by}
        row = insert(self._db.t.plan).values(**values, policy_version=plan.policy.version, body=plan.model_dump())
        made = c.execute(row.returning(self._db.t.plan.c.id)).scalar_one()
        return plan.model_copy(update={"id": made})


def _due(
    measure: Measure, terms: InstancePolicy, kinds: Sequence[str], now: int
) -> tuple[list[DueKind], dict[str, int]]:
    """Return what is due of each kind, and what is kept because its kind has no retention."""
    wanted, held, due = terms.policy.retention_seconds, {}, []
    short = limits.shortened(terms.agreed or {}, wanted)
    for kind in kinds:
        cutoff = rules.cutoff(kind, terms.policy, now)
        if cutoff is None:
            held[f"{keepers.UNKNOWN_KIND}: {kind}"] = measure.waiting(kind)
            continue
        whole = measure.due(kind, cutoff)
        early = measure.due(kind, cutoff, now - 1000 * short[kind]) if kind in short else None
        if early is None or not early.marks:
            due.append(DueKind(whole, whole))
            continue
        why = limits.too_early(kind, early.marks, short[kind], wanted[kind])
        due.append(DueKind(whole, measure.due(kind, early.since), early, why))
    return due, held


def _limit(policy: Policy, live: Live) -> Allowance | None:
    if policy.unlimited is None or policy.max_delete_fraction >= 1:
        return limits.allowance(policy, None)  # nothing follows from a count, which may take long
    try:
        return limits.allowance(policy, live() if callable(live) else live)
    except OwnerSilent as e:
        return limits.allowance(policy, None, str(e))
