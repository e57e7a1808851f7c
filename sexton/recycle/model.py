"""The messages of a round: orders and results of its workflow and activities, plans and reports.

Messages ignore unknown fields and set no bounds, because a replay reads old histories again. Instants are milliseconds
since 1970 on the database's clock.
"""

from enum import StrEnum

from pydantic import Field, computed_field

from sexton.kernel.message import Message
from sexton.marks.keepers import KeptCounts
from sexton.marks.lease import Lease

DAY_MS = 86_400_000
"""The window in which limits count objects: 24 hours in milliseconds."""
SUCCEEDED, FAILED, CANCELLED, STOPPED = "SUCCEEDED", "FAILED", "CANCELLED", "STOPPED"
"""How a round ended, in its report: by itself; with an error; by an operator's cancel; by a stop, list or window."""


class RoundState(StrEnum):
    """The state of a round's row; the report says more exactly how a round ended."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """It did not run to its end: an error, a cancel or a halt."""


class Policy(Message):
    """When marks are due, and the order in which kinds are deleted.

    It travels with the plan, so a replay sees the policy of its day.
    """

    version: str
    retention_seconds: dict[str, int]
    upload_grace_seconds: int
    after: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    owners: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Owner → kinds that only its instances have → retention in seconds; see ``policy.for_owner``."""
    unlimited: tuple[str, ...] | None = None
    """Kinds that do not count against the limits (garbage no person dropped); None: an old policy without limits."""
    max_delete_objects: int = 0
    max_delete_fraction: float = 0.0


class KindPlan(Message):
    """One kind of a plan: marks due at the cutoff, and what is known of their size.

    Marks whose ``ages_from`` is at or before ``since`` are left out (0: none is). ``objects`` is estimated where a
    prefix has not been listed yet; ``limited`` kinds count against the limits of 24 hours.
    """

    kind: str
    cutoff: int
    marks: int
    keys: int = 0
    prefixes: int = 0
    bytes: int = 0
    oldest: int | None = None
    since: int = 0
    objects: int = 0
    estimated: bool = False
    limited: bool = False
    ages: int = 0
    """A sum over the instants of its marks: other marks, even as many and as large, have a different sum."""
    awaits: str = ""
    """Why no round deletes this without approval; empty where a round does."""
    stopped: bool = False
    """A round found more objects than were estimated and stopped at the limit."""


class Plan(Message):
    """Exactly what one round may delete. ``id`` 0 means not stored yet.

    ``awaits``: why an operator must apply it. ``allowance``: how many objects of limited kinds may be deleted in 24
    hours; None where an operator applied the plan or there is no limit. ``whole``: nothing was left out for lack of an
    approval, so the operator who applies it agrees to its retentions. ``awaits_since``: when the first plan was made
    of those that followed one another without an operator's answer.
    """

    id: int = 0
    instance: str
    created_at: int
    policy: Policy
    kinds: tuple[KindPlan, ...] = ()
    kept: KeptCounts = Field(default_factory=dict)
    claimed: int = 0
    awaits: str = ""
    allowance: int | None = None
    whole: bool = False
    awaits_since: int | None = None

    @property
    def marks(self) -> int:
        """Return how many marks the plan would claim, without those that earlier rounds claimed."""
        return sum(k.marks for k in self.kinds)


class OpenedRound(Message):
    """A round that has been opened: its row, its lease, whether it may delete, the policy of its day."""

    round: int
    lease: Lease
    may_delete: bool
    policy: Policy
    vaults: tuple[str, ...] = ()
    attributes: bool = False
    """Whether the search attributes of Sexton are registered in Temporal."""
    cutoffs: dict[str, int] = Field(default_factory=dict)
    """Kind → the latest ``ages_from`` that is due by a retention to which an operator has agreed; for the owner."""
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    """Vaults in which the round deletes nothing, because it could not write itself into their markers, and why."""
    heavy_objects: int | None = None
    """A kind with more objects than this is deleted on Spark; None: no kind is."""


class Cursor(Message):
    """A position in the order in which marks fall due: all marks up to and including it were examined."""

    ages_from: int = 0
    id: str = ""


class KindProgress(Message):
    """The progress of one kind in all runs of a round.

    Marks: ``due`` by the plan, ``scanned``, ``claimed``, ``removed``, ``quarantined``, ``kept``. ``objects`` and
    ``bytes``: what is deleted.
    """

    kind: str
    due: int = 0
    scanned: int = 0
    claimed: int = 0
    removed: int = 0
    objects: int = 0
    bytes: int = 0
    quarantined: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    cursor: Cursor = Cursor()
    ranges: int = 0
    finished: bool = False
    elapsed_ms: int = 0
    error: str = ""
    note: str = ""
    tries_spark: bool = True
    """Whether the next range of the kind is offered to Spark's workers again."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def objects_per_second(self) -> float | None:
        """Return the rate so far, None before any object was deleted."""
        return 1000 * self.objects / self.elapsed_ms if self.objects and self.elapsed_ms else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def seconds_left(self) -> float | None:
        """Return the remaining time at the rate at which marks were scanned so far; None before the first."""
        if not self.scanned or self.finished:
            return 0.0 if self.finished else None
        return max(0, self.due - self.scanned) * self.elapsed_ms / self.scanned / 1000


class RoundProgress(Message):
    """The answer to the query ``progress``.

    ``doing``: the phase, one of WAITING (for its lease), ADOPTING, PLANNING, RECYCLING, PAUSED, BACKING_OFF, CLOSING,
    ENDED.
    """

    instance: str
    doing: str
    round: int | None = None
    plan: int | None = None
    tries: int = 0
    leases: int = 0
    kinds: tuple[KindProgress, ...] = ()
    kept: KeptCounts = Field(default_factory=dict)
    error: str = ""
    backoff_seconds: float = 0.0


class Carried(Message):
    """What a workflow run passes to its next run when its history has grown long."""

    run: str
    opened: OpenedRound | None = None
    plan: int | None
    leases: int
    lost_leases: int
    tries: int
    kinds: tuple[KindProgress, ...]
    faults: dict[str, str]


class RecycleRequest(Message):
    """Start one round. Without ``plan`` the round makes its own; an instance that only observes stops after it."""

    instance: str
    plan: int | None = None
    requested_by: str = ""
    carried: Carried | None = None


class OpenRoundOrder(Message):
    """Take the lease and open the round of ``run`` (empty: the calling workflow run); ``by``: who requested it."""

    instance: str
    plan: int | None = None
    run: str = ""
    by: str = ""
    why: str = ""
    """Why the round ended before it was opened, where it did."""


class ReleaseOrder(Message):
    """Free the lease while the round waits; ``why`` is shown with the round."""

    opened: OpenedRound
    why: str


class RangeOrder(Message):
    """Work on one range of one kind: everything due after the cursor, up to about ``RANGE_OBJECTS`` objects."""

    round: int
    number: int
    lease: Lease
    kind: str
    cutoff: int
    limit: int
    after: Cursor = Cursor()
    upload_grace_seconds: int
    allowance: int | None = None
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    attempts: int = 0
    """At most so many attempts were made by workers of another queue: attempts of this queue are newer."""


class RangeProgress(Message):
    """The progress of a range, as details of its heartbeat, for people.

    ``claimed``: marks. ``files``: the number of the last file stored in this attempt. ``tried``: the number of the file
    up to which all were tried. ``faults``: the excluded vaults, and why. The next attempt needs none of this: it reads
    the rows, page by page.
    """

    claimed: int
    files: int
    tried: int
    faults: dict[str, str] = Field(default_factory=dict)


class RangeReceipt(Message):
    """The result of one range. ``kept``: marks by the reason to keep them; ``faults``: excluded vaults, and why.

    ``removed``, ``objects`` and ``bytes`` are those of the kind in the whole round so far.
    """

    scanned: int = 0
    claimed: int = 0
    last: Cursor = Cursor()
    finished: bool = False
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    quarantined: int = 0
    faults: dict[str, str] = Field(default_factory=dict)
    removed: int = 0
    objects: int = 0
    bytes: int = 0


class AdoptOrder(Message):
    """Finish the marks that earlier rounds claimed, and let the owner mark what has become garbage since."""

    round: int
    lease: Lease
    upload_grace_seconds: int
    cutoffs: dict[str, int] = Field(default_factory=dict)
    excluded_vaults: dict[str, str] = Field(default_factory=dict)


class Counts(Message):
    """Counts of objects and, for ``claimed`` and ``removed``, of marks.

    ``bytes_estimated``: the owners' numbers, where no size was measured. ``hidden``: objects behind delete markers.
    """

    claimed: int = 0
    removed: int = 0
    deleted: int = 0
    absent: int = 0
    hidden: int = 0
    failed: int = 0
    bytes_freed: int = 0
    bytes_estimated: int = 0
    bytes_hidden: int = 0


class KindVaultCounts(Counts):
    """Counts of one kind in one vault."""

    kind: str
    vault: str


class CloseOrder(Message):
    """End a round and store its report."""

    opened: OpenedRound
    plan: int | None
    outcome: str
    error: str = ""
    scanned: int = 0
    due: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    quarantined: int = 0
    kinds: tuple[KindProgress, ...] = ()
    faults: dict[str, str] = Field(default_factory=dict)
    leases: int = 1
    lost_leases: int = 0


class KindReport(Message):
    """One kind of a round: what was due by its plan, what was deleted or kept, the time it took, and its error."""

    kind: str
    due: int = 0
    due_bytes: int = 0
    scanned: int = 0
    claimed: int = 0
    removed: int = 0
    deleted: int = 0
    hidden: int = 0
    bytes: int = 0
    elapsed_ms: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    error: str = ""
    note: str = ""
    """Further information for an operator, for example that no Spark worker took the kind."""


class RoundReport(Counts):
    """The result of one round, stored with it. ``leases`` above 1: it freed or lost its lease, and took it again."""

    round: int
    instance: str
    plan: int | None = None
    state: str = "SUCCEEDED"
    observed: bool = False
    error: str = ""
    scanned: int = 0
    due: int = 0
    quarantined: int = 0
    waiting: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    begun: int = 0
    """Deleted objects of claimed marks that are not finished; the round that finishes these marks counts them."""
    faults: int = 0
    """Marks kept because a vault could not be verified or an owner did not answer: an operator must act."""
    tallies: tuple[KindVaultCounts, ...] = ()
    kinds: tuple[KindReport, ...] = ()
    vaults: dict[str, str] = Field(default_factory=dict)
    """Each vault of the instance: ``normal``, or why the round excluded it."""
    leases: int = 1
    lost_leases: int = 0
    started_at: int | None = None
    ended_at: int | None = None


class TickRequest(Message):
    """Start the rounds that are due."""

    deployment: str


class DueInstances(Message):
    """Instances whose next round is due, the one that waited longest first, and how many rounds may start."""

    instances: tuple[str, ...] = ()
    slots: int = 0
    checks: tuple[str, ...] = ()
    """Instances whose check should start."""
    topics: bool = False
    """Whether topics are due to be purged."""
    binlogs: tuple[str, ...] = ()
    """Instances whose binlog run should start."""
