"""Read the rows with which a worker compares an order that it received over Temporal."""

from sqlalchemy import and_, select

from sexton.database.engine import Database
from sexton.recycle.model import RoundState
from sexton.recycle.planning.model import Plan, Policy
from sexton.recycle.planning.policy import for_owner
from sexton.recycle.planning.sql.retentions import RetentionStore
from sexton.recycle.rounds.orders import RoundFacts


def read(db: Database, retentions: RetentionStore, round_: int, plan: int, policy: Policy) -> RoundFacts | None:
    """Return what the rows say about a round, and about a plan of its instance; None: there is no such round."""
    t = db.t
    with db.read() as c:
        joined = t.round.join(t.instance, t.instance.c.id == t.round.c.instance)
        columns = (t.round.c.instance, t.round.c.run_id, t.round.c.state, t.round.c.plan, t.instance.c.owner)
        row = c.execute(select(*columns).select_from(joined).where(t.round.c.id == round_)).one_or_none()
        if row is None:
            return None
        is_behind = and_(t.vault.c.instance == row.instance, t.vault.c.announced_round < round_)
        unannounced = frozenset(c.execute(select(t.vault.c.name).where(is_behind)).scalars())
        is_own = and_(t.plan.c.id == plan, t.plan.c.instance == row.instance)
        stored = c.execute(select(t.plan.c.body, t.plan.c.approved_at).where(is_own)).one_or_none()
    instants = retentions.due_instants(row.instance, policy)
    return RoundFacts(
        instance=row.instance,
        run=row.run_id,
        is_running=row.state == RoundState.RUNNING,
        policy=for_owner(policy, row.owner),
        cutoffs=instants.agreed,
        due=instants.in_force,
        unannounced=unannounced,
        plan=Plan.model_validate(stored.body) if stored is not None else None,
        is_approved=stored is not None and stored.approved_at is not None and row.plan == plan,
    )
