"""Plans as they are built and listed, the states they pass through, and what it costs to apply one. Pure.

Instants are in ms since 1970.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from sexton.kernel.message import Message
from sexton.marks.kept import KeepReason, Kept, KeptCounts
from sexton.marks.model import NOTHING_DUE, Cutoff
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import Cursor
from sexton.storage.model import PAGE_KEYS


class PlanState(StrEnum):
    """Where a plan stands: the first three are stored, the others are how an open plan is shown."""

    PLANNED = "PLANNED"
    APPLYING = "APPLYING"
    APPLIED = "APPLIED"
    AWAITING = "AWAITING_APPROVAL"
    EXPIRED = "EXPIRED"
    REPLACED = "REPLACED"
    REJECTED = "REJECTED"


class OwnerPolicy(Message):
    """What a policy says of one owner's instances alone.

    ``retention_seconds``: kinds that only they have. ``after``: kind → kinds deleted before it. ``fileless``: kinds
    whose marks are records without files, and never delete an object. ``unlimited``: kinds that do not count against
    the limits.
    """

    retention_seconds: dict[str, int]
    after: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    fileless: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()


class Policy(Message):
    """When marks are due, and the order in which kinds are deleted.

    It travels with the plan, so a replay sees the policy of its day.
    """

    version: str
    retention_seconds: dict[str, int]
    upload_grace_seconds: int
    after: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    owners: dict[str, OwnerPolicy] = Field(default_factory=dict)
    """Owner → what only its instances have; see ``policy.for_owner``."""
    fileless: tuple[str, ...] = ()
    """Kinds of the instance's owner that are records without files."""
    unlimited: tuple[str, ...] | None = None
    """Kinds that do not count against the limits (garbage no person dropped); None: an old policy without limits."""
    max_delete_objects: int = 0
    max_delete_fraction: float = 0.0
    fallback_retention_seconds: int | None = None
    """The retention of kinds that have none of their own; None: their marks are kept."""

    @field_validator("owners", mode="before")
    @classmethod
    def _of_earlier_builds(cls, owners: Any) -> Any:
        """Accept retentions alone, as running rounds of earlier builds carry them."""
        return {
            name: {"retention_seconds": own} if isinstance(own, dict) and "retention_seconds" not in own else own
            for name, own in owners.items()
        }

    def retention(self, kind: str) -> int | None:
        """Return the retention of a kind in seconds; None: its marks are kept."""
        return self.retention_seconds.get(kind, self.fallback_retention_seconds)

    def due_at(self, kind: str, retention_starts_at: int) -> int | None:
        """Return when a mark is due (ms since 1970); None: it is kept."""
        retention = self.retention(kind)
        return None if retention is None else retention_starts_at + 1000 * retention


class PlannedShard(Message):
    """Due marks of one kind that are deleted beside those of other shards: so many, up to and including a position."""

    marks: int
    until: Cursor | None = None
    """None: the last shard, which ends at the cutoff."""


class MarkSums(Message):
    """Sums over marks; ``objects`` and ``bytes`` as in ``KindPlan``."""

    marks: int = 0
    keys: int = 0
    prefixes: int = 0
    objects: int = 0
    bytes: int = 0


class HeldMarks(MarkSums):
    """Due marks of one kind that a keeper blocks, as far as their rows show it; of two answers the first one counts."""

    reason: KeepReason = KeepReason.HOLD  # plans of earlier builds knew only holds
    subject: str = ""

    @property
    def kept(self) -> Kept:
        """Return the keeper's answer."""
        return Kept(self.reason, self.subject)


class KindPlan(Message):
    """One kind of a plan: marks due at the cutoff, and what is known of their size.

    Marks that are due by ``since``, too, are left out. ``objects`` is estimated where a prefix has not been listed yet;
    ``limited`` kinds count against the limits on deletions within 24 hours.
    """

    kind: str
    cutoff: Cutoff = Field(alias="cutoff_at")
    marks: int
    keys: int = 0
    prefixes: int = 0
    bytes: int = 0
    oldest: int | None = Field(None, alias="oldest_at")
    since: Cutoff = Field(NOTHING_DUE, alias="since_at")
    objects: int = 0
    estimated: bool = False
    guessed: bool = False
    """The estimate is an assumption: no prefix of this kind was ever listed."""
    limited: bool = False
    ages: int = 0
    """A sum over the instants of its marks: other marks, even as many and as large, have a different sum."""
    awaits: str = ""
    """Why no round deletes this without approval; empty where a round does."""
    stopped: bool = False
    """A round found more objects than were estimated and stopped at the limit."""
    shards: tuple[PlannedShard, ...] = ()
    """The marks in shards of about the same size, in the order of their positions; empty: one shard."""
    held: tuple[HeldMarks, ...] = ()
    """What holds blocked of this when the plan was made. The marks are still the plan's: a hold may end before."""

    @property
    def begin(self) -> Cursor:
        """Return the position behind which its marks are."""
        return Cursor() if self.since == NOTHING_DUE else Cursor(retention_starts_at=self.since + 1)

    @property
    def unheld(self) -> MarkSums:
        """Return the sums without the marks that holds block; each page of marks counts ``MOST_SUM`` bytes at most."""
        held = {name: sum(getattr(h, name) for h in self.held) for name in MarkSums.model_fields}
        return MarkSums(**{name: max(0, getattr(self, name) - number) for name, number in held.items()})


class Plan(Message):
    """Exactly what one round may delete. ``id`` 0 means not stored yet.

    ``awaits``: why an operator must apply it. ``allowance``: how many objects of limited kinds may be deleted in 24
    hours; None where an operator applied the plan or there is no limit. ``whole``: nothing was left out for lack of an
    approval, so the operator who applies it agrees to its retentions. ``awaits_since``: when the first plan was made
    of those that followed one another without an operator's answer.
    """

    id: int = Field(0, alias="plan")
    instance: str
    created_at: int
    policy: Policy
    kinds: tuple[KindPlan, ...] = ()
    kept: KeptCounts = Field(default_factory=dict)
    claimed: int = 0
    awaits: str = ""
    allowance: int | None = None
    whole: bool = False
    awaits_since: int | None = Field(None, alias="awaits_since_at")
    note: str = ""
    """Which limit is not in force, and why."""

    @property
    def marks(self) -> int:
        """Return how many marks the plan would claim, without those that earlier rounds claimed."""
        return sum(k.marks for k in self.kinds)

    @property
    def objects(self) -> int:
        """Return how many objects it deletes at most, as far as is known: holds of its day may have ended."""
        return sum(k.objects for k in self.kinds)

    @property
    def held(self) -> MarkSums:
        """Return the sums of what holds blocked when it was made, which is deleted, too, if they have ended."""
        parts = [held for kind in self.kinds for held in kind.held]
        return MarkSums(**{name: sum(getattr(part, name) for part in parts) for name in MarkSums.model_fields})


class PlanRow(Message):
    """One plan in a list; instants in ms since 1970.

    ``state`` is one of ``PlanState``; ``since`` is when the first of the plans was made that followed one another
    without an operator's answer. Its counts are without what holds blocked then: ``held_marks`` and ``held_objects``,
    which are deleted, too, if the holds have ended.
    """

    id: int = Field(alias="plan")
    instance: str
    state: str
    created_at: int
    planned_by: str
    marks: int
    objects: int
    bytes: int
    kinds: tuple[str, ...]
    held_marks: int = 0
    held_objects: int = 0
    awaits: str = ""
    since: int | None = Field(None, alias="since_at")
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

    instance_policy: InstancePolicy
    now: int
    due: Sequence[DueKind]
    kept: Mapping[Kept, int]
    claimed: int
    """Claimed marks that the round would finish first."""
    used: int
    """Objects that count against the limits, claimed within the last 24 hours."""
    stopped: frozenset[str]
    """Kinds of which a round found more objects than were estimated."""
    questioned: Mapping[str, str]
    """Kinds that need an approval whatever their size, and why: one was rejected, or many orphans were found."""

    @property
    def needs_limit(self) -> bool:
        """Return whether anything that is due counts against the limits."""
        return any(due.whole.limited and due.whole.marks for due in self.due)


class Shift(Message):
    """How much of a kind another retention would make due now (``more``), or no longer due.

    ``before`` and ``after`` are retentions in seconds, None where none is set. ``asks``: the first plan of a round
    after the change would await approval.
    """

    instance: str
    kind: str
    before: int | None
    after: int | None
    more: bool
    marks: int
    objects: int
    estimated: bool
    bytes: int
    asks: bool


ASSUMED_KEYS_PER_SECOND = 3_500
"""The rate that is assumed before a round has deleted anything: what a store usually allows for one prefix."""
LISTINGS = 2
"""How often a prefix is listed: before it is deleted, and after the upload grace."""


class Estimate(Message):
    """About what a plan costs, if nothing is kept and prefixes are no larger than others of their kind were."""

    objects: int
    delete_requests: int
    list_requests: int
    money: float
    currency: str
    minutes: float
    keys_per_second: float


def rate(reports: Sequence[RoundReport]) -> float:
    """Return the objects deleted per second in these rounds, over the sum of the times of all kinds.

    The time for marks that earlier rounds had claimed counts too, because their objects do. Where nothing was deleted,
    return an assumed rate.
    """
    deleting = [r for r in reports if any(k.deleted + k.hidden for k in r.kinds)]
    deleted = sum(k.deleted + k.hidden for r in deleting for k in r.kinds if k.elapsed_ms or r.adoption_ms)
    elapsed_ms = sum(k.elapsed_ms for r in deleting for k in r.kinds if k.deleted + k.hidden)
    elapsed_ms += sum(r.adoption_ms for r in deleting)
    return 1000 * deleted / elapsed_ms if deleted and elapsed_ms else float(ASSUMED_KEYS_PER_SECOND)


def estimate(plan: Plan, keys_per_second: float, *, list_price: float, delete_price: float, currency: str) -> Estimate:
    """Return about what it costs to apply a plan at this rate. Prices: of 1,000 LIST and DELETE requests."""
    sums = [k.unheld for k in plan.kinds]
    objects = sum(k.objects for k in sums)
    objects_under_prefixes = sum(max(0, k.objects - k.keys) for k in sums)
    delete_requests = ceil(objects / PAGE_KEYS)
    list_requests = LISTINGS * sum(k.prefixes for k in sums) + objects_under_prefixes // PAGE_KEYS
    price = delete_requests * delete_price + list_requests * list_price
    return Estimate(
        objects=objects,
        delete_requests=delete_requests,
        list_requests=list_requests,
        money=price / 1000,
        currency=currency,
        minutes=objects / keys_per_second / 60,
        keys_per_second=keys_per_second,
    )
