"""Review a stored plan: its numbers, what blocks it now, and the first marks of each of its kinds."""

from sexton.database.engine import Database
from sexton.insight.marks import MarkListing, in_plan
from sexton.insight.views import ListedMark
from sexton.kernel.message import Message
from sexton.operators.holds.model import Hold
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import Plan, PlanRow


class PlanReview(Message):
    """One stored plan, and what an operator should know of it."""

    row: PlanRow
    plan: Plan
    estimate: Estimate
    observes: bool = False
    holds: tuple[Hold, ...] = ()
    """The holds of its instance that are active now."""
    halt: str = ""
    """What stops its instance now; empty: nothing does."""
    marks: tuple[ListedMark, ...] = ()
    """The first marks of each kind that are due now, up to its cutoffs."""


def sample_marks(db: Database, plan: Plan, marks_per_kind: int) -> tuple[ListedMark, ...]:
    """Return the first marks of each kind of a plan that wait now, in the order in which they became due."""
    listing = MarkListing(db, plan.policy)
    marks: list[ListedMark] = []
    with db.read() as c:
        for kind in plan.kinds:
            marks += listing.page(c, in_plan(plan, kind.kind), limit=marks_per_kind).marks
    return tuple(marks)
