"""A rig whose rounds have limits, and helpers that make many marks and read plans."""

from collections.abc import Callable

from sexton.contract import NewMark
from sexton.recycle.planning.model import KindPlan, Plan, Policy
from sexton.recycle.planning.policy import policy
from tests.support.rig import GRACE, RETENTION, Rig

HOUR = 3_600
DAY = 24 * HOUR
UNLIMITED = ("compacted", "prepared")


def limited_policy(*, objects: int = 1_000_000, fraction: float = 0.1, **retention: int) -> Policy:
    """Return the rig's policy with limits, and with other retentions in seconds by kind."""
    return policy(
        RETENTION | retention,
        GRACE,
        unlimited=UNLIMITED,
        max_delete_objects=objects,
        max_delete_fraction=fraction,
    )


class Limited(Rig):
    """A rig whose rounds have limits; ``live`` is the number of live objects that its owner counts."""

    live: Callable[[], int | None] | int | None = None

    def plan(self, instance: str = "shop") -> Plan:
        """Plan as a round does; return the plan."""
        return self.rounds.plans.plan_for_round(instance, self.policy, "test", self._count)

    def plan_as_operator(self, instance: str = "shop") -> Plan:
        """Plan as `sexton plan` does; return the plan."""
        return self.rounds.plans.plan_for_operator(instance, self.policy, "cli", self._count)

    def _count(self) -> int | None:
        return self.live() if callable(self.live) else self.live

    def begin_apply(self, plan: int, instance: str = "shop") -> None:
        """Approve a plan and begin to apply it, as an operator and the opening of its round do."""
        self.approve(plan, instance)
        with self.db.write() as c:
            self.rounds.plans.approvals.begin_apply(c, plan, instance, self.policy)

    def finish_apply(self, plan: int) -> None:
        """Approve the retentions of an applied plan, as the end of its round does."""
        with self.db.write() as c:
            self.rounds.plans.agree_plan(c, plan)

    def garbage(self, kind: str, many: int, name: str = "", *, keys: int = 1, later: int = 0) -> list[str]:
        """Make ``many`` marks of a kind with ``keys`` keys each, then move the clock forward; return their ids."""
        ids = [f"{kind}-{name}{n}" for n in range(many)]
        keys_by_id = {i: tuple(f"data/{i}/{k}.dat" for k in range(keys)) for i in ids}
        self.mark(kind, *(NewMark(id=i, vault="disk", keys=keys_by_id[i], bytes=10 * keys) for i in ids))
        if later:
            self.later(later)
        return ids

    def agree(self, **retention: int) -> None:
        """Plan with other retentions, which therefore count as approved."""
        self.policy = limited_policy(**retention)
        self.plan()

    def record_deletions(self, objects: int) -> None:
        """Record that a number of objects of limited kinds was claimed just now."""
        number = self.count("batch")
        opened = self.rounds.open("shop", f"run {number}", None, self.policy)
        t = self.db.t.batch
        values = {"instance": "shop", "round": opened.round, "kind": "dropped", "number": number, "state": "DONE"}
        with self.db.write() as c:
            now = self.db.now(c)
            row = t.insert().values(**values, first="", last="", lease_epoch=1, attempt=1)
            c.execute(row.values(limited_objects=objects, claimed_at=now))
        self.leases.free(opened.lease)


def thousands_due(shop: Limited) -> list[str]:
    """Let 30 marks of 3,000 objects be due; return their ids."""
    return shop.garbage("dropped", 30, keys=100, later=10_801)


def awaited(shop: Limited) -> int:
    """Plan as a round does; return the number of the one plan that then waits."""
    shop.plan()
    [number] = waiting_plans(shop)
    return number


def marks_by_kind(plan: Plan) -> dict[str, int]:
    """Return how many marks a plan has of each kind."""
    return {k.kind: k.marks for k in plan.kinds}


def kind_plan(plan: Plan, kind: str) -> KindPlan:
    """Return the part of a plan that is of one kind."""
    [part] = [k for k in plan.kinds if k.kind == kind]
    return part


def waiting_plans(rig: Rig) -> list[int]:
    """Return the numbers of the plans that wait for approval now."""
    with rig.db.read() as c:
        return [p.id for p in rig.rounds.plans.approvals.waiting(c, "shop")]
