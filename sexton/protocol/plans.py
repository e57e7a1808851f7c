"""Plans and the rounds that apply them."""

from sexton.kernel.message import Message
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import Plan


class PlanDetails(Message):
    """A plan, its estimated cost, and what blocks the deletion of its marks besides the plan itself."""

    plan: Plan
    state: str
    estimate: Estimate
    observes: bool = False
    holds: tuple[int, ...] = ()
    halt: str = ""


class StartedRound(Message):
    """The round that was started. ``plan``: the one that it applies; None: it makes one of its own."""

    plan: int | None = None
    instance: str
    workflow: str
    run: str
