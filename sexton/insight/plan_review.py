"""Review a stored plan: its numbers, what blocks it now, and the first marks of each of its kinds."""

from sexton.database.engine import Database
from sexton.insight.marks import MarkListing, in_plan
from sexton.insight.views import ListedMark
from sexton.kernel.message import Message
from sexton.operators.holds.model import Hold
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import Plan, PlanRow


class PlanStanding(Message):
    """A plan, its estimated cost, and what blocks the deletion of its marks besides the plan itself."""

    plan: Plan
    """Its number is 0 if nothing is due: then it is not stored."""
    estimate: Estimate
    observes: bool = False
    holds: tuple[Hold, ...] = ()
    """The holds of its instance that are active now."""
    halt: str = ""
    """What stops its instance now; empty: nothing does."""


class PlanReview(PlanStanding):
    """A stored plan, and the first marks of each kind that are due now, up to its cutoffs."""

    row: PlanRow
    marks: tuple[ListedMark, ...] = ()


class PlanDetails(PlanStanding):
    """A new plan.

    ``next_due_at``: when the next mark is due that is not due yet, of kind ``next_kind``; None: no mark waits.
    """

    state: str
    next_due_at: int | None = None
    next_kind: str = ""


def sample_marks(db: Database, plan: Plan, marks_per_kind: int) -> tuple[ListedMark, ...]:
    """Return the first marks of each kind of a plan that wait now, in the order in which they became due."""
    listing = MarkListing(db, plan.policy)
    marks: list[ListedMark] = []
    with db.read() as c:
        for kind in plan.kinds:
            marks += listing.page(c, in_plan(plan, kind.kind), limit=marks_per_kind).items
    return tuple(marks)
