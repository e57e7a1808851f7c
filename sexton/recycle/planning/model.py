"""Plans as they are built and listed, and the states they pass through. Pure values; instants in ms since 1970."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from sexton.kernel.message import Message
from sexton.marks.keepers import Kept
from sexton.recycle.model import KindPlan, Policy


class PlanState(StrEnum):
    """Where a plan stands: the first three are stored, the others are how an open plan is shown."""

    PLANNED = "PLANNED"
    APPLYING = "APPLYING"
    APPLIED = "APPLIED"
    AWAITING = "AWAITING_APPROVAL"
    EXPIRED = "EXPIRED"
    REPLACED = "REPLACED"
    REJECTED = "REJECTED"


class PlanRow(Message):
    """One plan in a list; instants in ms since 1970.

    ``state`` is one of ``PlanState``; ``since`` is when the first of the plans was made that followed one another
    without an operator's answer.
    """

    id: int
    instance: str
    state: str
    created_at: int
    planned_by: str
    marks: int
    objects: int
    bytes: int
    kinds: tuple[str, ...]
    awaits: str = ""
    since: int | None = None
    expires_at: int | None = None
    approved_by: str = ""
    approved_at: int | None = None


class InstancePolicy(NamedTuple):
    """The policy that judges an instance's marks. ``agreed``: kind → seconds agreed to; None before the first time."""

    instance: str
    enabled: bool
    policy: Policy
    agreed: Mapping[str, int] | None


class DueKind(NamedTuple):
    """One kind: what is due, and which part of that is due by the agreed retention, or only by a shorter one."""

    whole: KindPlan
    agreed: KindPlan
    early: KindPlan | None = None
    early_reason: str = ""
    """Why ``early`` awaits approval."""


class PlanFacts(NamedTuple):
    """What a plan is built from, read in one transaction. ``now``: ms since 1970."""

    terms: InstancePolicy
    now: int
    due: Sequence[DueKind]
    kept: Mapping[Kept, int]
    claimed: int
    """Claimed marks that the round would finish first."""
    used: int
    """Objects that count against the limits, claimed within the last 24 hours."""
    stopped: frozenset[str]
    """Kinds of which a round found more objects than were estimated."""
    rejected: Mapping[str, str]
    """Kinds that an operator has rejected, and who did so and why."""

    @property
    def needs_limit(self) -> bool:
        """Return whether anything that is due counts against the limits."""
        return any(due.whole.limited and due.whole.marks for due in self.due)
