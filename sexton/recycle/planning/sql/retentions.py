"""Retentions that an operator has agreed to. A shorter one that nobody agreed to makes nothing due without approval."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from sexton.database.engine import Database
from sexton.recycle.planning import limits
from sexton.recycle.planning.model import InstancePolicy, Plan, Policy
from sexton.recycle.planning.sql.measure import policy_of


class DueInstants(NamedTuple):
    """Kind → the latest ``retention_starts_at`` that is due: by the agreed retention, and by the one in force."""

    agreed: Mapping[str, int]
    in_force: Mapping[str, int]


class RetentionStore:
    """Agreed retentions, a column of ``instance``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def cutoffs(self, instance: str, policy: Policy) -> Mapping[str, int]:
        """Return the latest ``retention_starts_at`` of each kind that is due now by an agreed retention.

        By a retention that was shortened and not yet agreed to, no owner may expand or time out anything.
        """
        return self.due_instants(instance, policy).agreed

    def due_instants(self, instance: str, policy: Policy) -> DueInstants:
        """Return what is due now by agreed retentions, and by those in force."""
        with self._db.read() as tx:
            instance_policy, now = policy_of(self._db, tx, instance, policy), self._db.now(tx)
        retentions = instance_policy.policy.retention_seconds
        agreed = retentions | limits.shortened(instance_policy.agreed or {}, retentions)
        return DueInstants(
            agreed={kind: now - 1000 * seconds for kind, seconds in agreed.items()},
            in_force={kind: now - 1000 * seconds for kind, seconds in retentions.items()},
        )

    def agree_first(self, instance: str, policy: Policy) -> None:
        """Agree to a policy where none is agreed yet: the operator who enables an instance knows today's settings."""
        with self._db.write() as tx:
            instance_policy = policy_of(self._db, tx, instance, policy)
            if instance_policy.agreed is None:
                self.agree_undisputed(tx, instance_policy, ())

    def agree_undisputed(self, tx: Connection, instance_policy: InstancePolicy, disputed: Sequence[str]) -> None:
        """Agree to the retentions of all kinds but those that need an approval; to the first policy as it is."""
        before = dict(instance_policy.agreed or {})
        agreed = before | {k: s for k, s in instance_policy.policy.retention_seconds.items() if k not in disputed}
        if instance_policy.agreed is None or agreed != before:
            t = self._db.t.instance
            tx.execute(update(t).where(t.c.id == instance_policy.instance).values(retentions=agreed))

    def agree_plan(self, tx: Connection, plan: int) -> None:
        """Agree to the retentions of a plan that was applied, if its operator saw everything that they make due."""
        t, instance = self._db.t.plan, self._db.t.instance
        row = tx.execute(select(t.c.instance, t.c.body, t.c.approved_at).where(t.c.id == plan)).one_or_none()
        if row is None or row.approved_at is None:
            return
        applied = Plan.model_validate(row.body)
        if not applied.whole:
            return
        of_instance = select(instance.c.retentions).where(instance.c.id == row.instance)
        before = tx.execute(of_instance).scalar_one_or_none() or {}
        agreed = {**before, **applied.policy.retention_seconds}
        tx.execute(update(instance).where(instance.c.id == row.instance).values(retentions=agreed))
