"""What planning and rounds refuse."""

from sexton.kernel.errors import BadInput, Conflict, NotFound, SextonError


class PlanRefused(Conflict):
    """The plan does not exist, was applied, or belongs to another instance."""


class UnknownPlan(NotFound, PlanRefused):
    """No plan has this number, or none of that instance: a token of another one does not learn which."""

    def __init__(self, plan: int) -> None:
        super().__init__(f"there is no plan {plan}; see: sexton plan list")


class UnknownRound(NotFound, BadInput):
    """No round has this number."""


class NotQuarantined(Conflict, BadInput):
    """The mark is neither quarantined nor waits for its second pass, so it is not retried or discarded."""


class Unconfirmed(Conflict):
    """The marks name objects that were overwritten since; whether the new objects are deleted needs a confirmation."""


class OrderRefused(SextonError):
    """The rows of the database do not allow what an order over Temporal says."""


class RoundEnded(Conflict):
    """The round of this run has ended and was counted; it does not begin again."""
