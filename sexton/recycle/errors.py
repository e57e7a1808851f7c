"""What planning and rounds refuse."""

from sexton.kernel.errors import SextonError


class PlanRefused(SextonError):
    """The plan does not exist, was applied, or belongs to another instance."""


class OrderRefused(SextonError):
    """The rows of the database do not allow what an order over Temporal says."""


class RoundEnded(SextonError):
    """The round of this run has ended and was counted; it does not begin again."""
