"""Plans that a person lets go: which wait, what became of each, whether it may still be applied, what that agrees to.

Waiting for a person is a row, never a running workflow. A plan is applied as it was seen, or not at all.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.insight.views import PlanRow
from sexton.kernel.errors import BadInput
from sexton.operators.holds.store import REASON_CHARACTERS
from sexton.recycle.model import Plan, Policy
from sexton.recycle.pipeline.port import PlanRefused
from sexton.recycle.planning import limits
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.limits import DAY_MS
from sexton.recycle.planning.sql.measure import Measure

EXPIRES_MS = DAY_MS
"""How long a plan waits for a person; then it is made anew, with the numbers of that day."""
AWAITING, EXPIRED, REPLACED, REJECTED = "AWAITING_APPROVAL", "EXPIRED", "REPLACED", "REJECTED"
REJECTED_MS = 7 * DAY_MS
"""How long kinds of a plan that was rejected do not go unasked, however well they fit into the limits by then."""


class Approvals:
    """What happens to a plan after it was made."""

    _db: Database

    def state(self, plan: int) -> str:
        """Return a plan's state as it is shown; empty where there is no such plan."""
        t = self._db.t.plan
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == plan)).one_or_none()
            return "" if row is None else _shown(row, self._db.now(c))

    def plans(self, instance: str | None = None, last: int = 20) -> Sequence[PlanRow]:
        """Return the newest plans, newest first, and every older one that waits for a person."""
        t = self._db.t.plan
        wanted = select(t).order_by(t.c.id.desc()).limit(last)
        if instance is not None:
            wanted = wanted.where(t.c.instance == instance)
        with self._db.read() as c:
            now = self._db.now(c)
            newest = [_row(r, now) for r in c.execute(wanted)]
            known = {p.id for p in newest}
            return [*newest, *(p for p in self.waiting(c, instance) if p.id not in known)]

    def waiting(self, c: Connection, instance: str | None = None) -> Sequence[PlanRow]:
        """Return the plans that wait for a person now, the newest first."""
        t, now = self._db.t.plan, self._db.now(c)
        wanted = select(t).where(t.c.awaits.is_not(None), t.c.state == "PLANNED", t.c.expires_at > now)
        if instance is not None:
            wanted = wanted.where(t.c.instance == instance)
        return [_row(r, now) for r in c.execute(wanted.order_by(t.c.id.desc()))]

    def check_apply(self, plan: int, instance: str, policy: Policy) -> None:
        """Refuse a plan that cannot be applied now, as ``begin_apply`` would.

        Raises:
            PlanRefused: there is no such plan of the instance, it is not open, or the world has changed since.
        """
        with self._db.read() as c:
            self._check(c, plan, instance, policy)

    def begin_apply(self, c: Connection, plan: int, instance: str, policy: Policy, by: str) -> None:
        """Take a plan into work, approved by whoever applies it, in the transaction that opens its round.

        Raises:
            PlanRefused: there is no such plan of the instance, it is not open, or the world has changed since.
        """
        t = self._db.t.plan
        c.execute(select(t.c.id).where(t.c.id == plan).with_for_update())
        self._check(c, plan, instance, policy)
        values = {"state": "APPLYING", "approved_by": by, "approved_at": self._db.now(c)}
        c.execute(update(t).where(t.c.id == plan).values(**values))

    def reject(self, plan: int, why: str, by: str) -> PlanRow:
        """Refuse a plan that waits for a person: its kinds do not go unasked for 7 days, or until a later plan goes.

        Raises:
            BadInput: no reason is given.
            PlanRefused: the plan does not wait for anybody.
        """
        if not 0 < len(why.strip()) <= REASON_CHARACTERS:
            raise BadInput(f"give a reason of 1 to {REASON_CHARACTERS} characters: others must know why it may not go")
        check_text(why, by)
        t = self._db.t.plan
        with self._db.write() as c:
            row, now = c.execute(select(t).where(t.c.id == plan).with_for_update()).one_or_none(), self._db.now(c)
            if row is None or _shown(row, now) != AWAITING:
                was = "there is no such plan" if row is None else _shown(row, now)
                raise PlanRefused(f"plan {plan} waits for nobody: {was}; see: sexton plan --list")
            told = f"rejected by {by}: {why}"
            values = {"rejected": True, "approved_by": by, "approved_at": now, "expires_at": now, "awaits": told}
            c.execute(update(t).where(t.c.id == plan).values(**values))
            return _row(c.execute(select(t).where(t.c.id == plan)).one(), now)

    def _rejected(self, c: Connection, instance: str, now: int) -> dict[str, str]:
        """Return the kinds that somebody has lately said may not go, and nobody has let go since, with who and why."""
        t = self._db.t.plan
        answered = and_(t.c.instance == instance, t.c.approved_at > now - REJECTED_MS)
        found: dict[str, str] = {}
        for row in c.execute(select(t).where(answered).order_by(t.c.approved_at, t.c.id)):
            for kind in Plan.model_validate(row.body).kinds:
                if row.rejected:
                    found[kind.kind] = f"plan {row.id} with it was {row.awaits}"
                elif row.state in ("APPLYING", "APPLIED"):  # PLANNED again: nothing of it went
                    found.pop(kind.kind, None)
        return found

    def agree(self, c: Connection, plan: int) -> None:
        """Take the retentions of a plan that was applied as agreed, if a person saw everything they make due."""
        t, instance = self._db.t.plan, self._db.t.instance
        row = c.execute(select(t.c.instance, t.c.body, t.c.approved_at).where(t.c.id == plan)).one_or_none()
        if row is None or row.approved_at is None:
            return
        applied = Plan.model_validate(row.body)
        if not applied.whole:
            return
        before = c.execute(select(instance.c.retentions).where(instance.c.id == row.instance)).scalar_one_or_none()
        agreed = {**(before or {}), **applied.policy.retention_seconds}
        c.execute(update(instance).where(instance.c.id == row.instance).values(retentions=agreed))

    def _check(self, c: Connection, plan: int, instance: str, policy: Policy) -> None:
        t, owner = self._db.t.plan, self._db.t.instance
        row = c.execute(select(t).where(t.c.id == plan)).one_or_none()
        anew = f"make a new one: sexton plan {instance}"
        if row is None or row.instance != instance:
            raise PlanRefused(f"plan {plan} is not an open plan of {instance}; {anew}")
        if (state := _shown(row, self._db.now(c))) not in ("PLANNED", AWAITING):
            raise PlanRefused(f"plan {plan} is not an open plan of {instance}: {state}; {anew}")
        found = Plan.model_validate(row.body)
        whose = c.execute(select(owner.c.owner).where(owner.c.id == instance)).scalar_one_or_none() or ""
        policy = rules.for_owner(policy, whose)
        if row.policy_version != policy.version:
            raise PlanRefused(f"settings changed since plan {plan}: {limits.changed(found.policy, policy)}; {anew}")
        measure = Measure(self._db, c, instance, policy)
        if not found.kinds and not found.claimed:
            raise PlanRefused(f"plan {plan} has nothing to delete; {anew}")
        if changed := limits.difference(found.kinds, [measure.again(k) for k in found.kinds]):
            raise PlanRefused(f"plan {plan} is not what is there any more: {changed}; {anew}")

    def _open(self, c: Connection, instance: str, now: int, *, lock: bool = False) -> Sequence[Plan]:
        """Return the plans of an instance that wait for a person, the newest first; locked, nobody applies them."""
        t = self._db.t.plan
        open_ = and_(t.c.instance == instance, t.c.awaits.is_not(None), t.c.state == "PLANNED", t.c.expires_at > now)
        wanted = select(t.c.id, t.c.body).where(open_).order_by(t.c.id.desc())
        rows = c.execute(wanted.with_for_update() if lock else wanted)
        return [Plan.model_validate(r.body | {"id": r.id}) for r in rows]

    def _since(self, c: Connection, waiting: Plan) -> int:
        """Return since when a person is waited for: with a plan that follows an unanswered one, since that one's."""
        t, now = self._db.t.plan, waiting.created_at
        of = and_(t.c.instance == waiting.instance, t.c.awaits.is_not(None))
        row = c.execute(select(t).where(of).order_by(t.c.id.desc()).limit(1)).one_or_none()
        if row is None or row.state != "PLANNED":
            return now
        # Cut short: nothing waited any more. Its time ran out a day ago or longer: nobody has looked since.
        ran_out = row.expires_at == row.created_at + EXPIRES_MS and row.expires_at > now - DAY_MS
        return Plan.model_validate(row.body).awaits_since or now if ran_out or row.expires_at > now else now


def _shown(row: Any, now: int) -> str:
    if row.state != "PLANNED" or row.awaits is None:
        return str(row.state)
    if row.rejected:
        return REJECTED
    if row.expires_at > now:
        return AWAITING
    return EXPIRED if row.expires_at == row.created_at + EXPIRES_MS else REPLACED


def _row(row: Any, now: int) -> PlanRow:
    plan = Plan.model_validate(row.body)
    return PlanRow(
        state=_shown(row, now),
        marks=plan.marks,
        objects=sum(k.objects for k in plan.kinds),
        bytes=sum(k.bytes for k in plan.kinds),
        kinds=tuple(f"{k.marks:,} {k.kind}" for k in plan.kinds),
        since=plan.awaits_since,
        awaits=row.awaits or "",
        approved_by=row.approved_by or "",
        **{n: getattr(row, n) for n in ("id", "instance", "created_at", "planned_by", "expires_at", "approved_at")},
    )
