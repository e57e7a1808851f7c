"""What a recycle round says and is told: workflow and activity messages, plans and reports.

Messages ignore unknown fields and bound nothing: old histories are read again on replay. Instants are milliseconds
since 1970 on the database's clock.
"""

from pydantic import Field, computed_field

from sexton.kernel.message import Message
from sexton.marks.keepers import KeptCounts
from sexton.marks.lease import Lease

DAY_MS = 86_400_000
"""The window in which limits count objects: 24 hours in milliseconds."""
SUCCEEDED, FAILED, CANCELLED, STOPPED = "SUCCEEDED", "FAILED", "CANCELLED", "STOPPED"
"""How a round ends: as it should; with an error; by an operator's cancel; by a stop, a list or a window."""


class Policy(Message):
    """What is due when, and which kinds go before which; travels with the plan, so a replay sees that of its day."""

    version: str
    retention_seconds: dict[str, int]
    upload_grace_seconds: int
    after: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    owners: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Owner → kinds that only its instances have → retention in seconds; see ``policy.for_owner``."""
    unlimited: tuple[str, ...] | None = None
    """Kinds that do not count against the limits (garbage that nobody dropped); None: an old policy without limits."""
    max_delete_objects: int = 0
    max_delete_fraction: float = 0.0


class KindPlan(Message):
    """One kind of a plan: marks due at the cutoff, and what is known of their size.

    Marks that fell due at or before ``since`` are not meant (0: all). ``objects`` is estimated where a prefix has not
    been listed yet; ``limited`` kinds count against the limits of 24 hours.
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
    """A sum over the instants of its marks: other marks, as many and as large, have another one."""
    awaits: str = ""
    """Why no round does this without a person; empty where it does."""
    stopped: bool = False
    """A round found more objects than were estimated, and stopped at the limit."""


class Plan(Message):
    """Exactly what one round may delete. ``id`` 0 means not stored yet.

    ``awaits`` says why a person must apply it; ``allowance`` is how many objects of limited kinds may go in 24 hours,
    None where a person applied the plan or there is no limit. ``whole``: nothing was left out of it for want of an
    approval, so whoever applies it agrees to its retentions. ``awaits_since``: when the first of the plans that
    followed one another without an answer was made.
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
        """Marks the plan would claim, without those that earlier rounds claimed."""
        return sum(k.marks for k in self.kinds)


class OpenedRound(Message):
    """The round as it stands after opening: its row, its lease, whether it may delete, the policy of its day."""

    round: int
    lease: Lease
    may_delete: bool
    policy: Policy
    vaults: tuple[str, ...] = ()
    attributes: bool = False
    """Whether Temporal knows our search attributes."""
    cutoffs: dict[str, int] = Field(default_factory=dict)
    """Kind → the latest ``ages_from`` that is due by a retention somebody has agreed to; for the owner."""
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    """Vaults whose markers do not name the round, and why; they are left alone."""
    heavy_objects: int | None = None
    """A kind of more objects than this is deleted on Spark; None: none is."""


class Cursor(Message):
    """A place in the order in which marks fall due: everything up to and including it was looked at."""

    ages_from: int = 0
    id: str = ""


class KindProgress(Message):
    """How far one kind is: marks due by the plan, looked at, claimed, removed; objects and bytes gone; in all runs."""

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
    """Whether it is worth asking Spark's workers again in this round."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def objects_per_second(self) -> float | None:
        """Return the rate so far, None before anything went."""
        return 1000 * self.objects / self.elapsed_ms if self.objects and self.elapsed_ms else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def seconds_left(self) -> float | None:
        """Return how long it will take at the rate at which marks were looked at so far."""
        if not self.scanned or self.finished:
            return 0.0 if self.finished else None
        return max(0, self.due - self.scanned) * self.elapsed_ms / self.scanned / 1000


class RoundProgress(Message):
    """The answer to the query ``progress``.

    ``doing`` is one of WAITING (for its lease), ADOPTING, PLANNING, RECYCLING, PAUSED, BACKING_OFF, CLOSING, ENDED.
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
    """What a run hands to the next one when its history has grown long."""

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
    """Take the lease and open the round of ``run`` (empty: the workflow run that asks); ``by``: who asked for it."""

    instance: str
    plan: int | None = None
    run: str = ""
    by: str = ""
    why: str = ""
    """Why it is over before it began, where it is."""


class ReleaseOrder(Message):
    """Give the lease back while the round waits; ``why`` is shown with it."""

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
    """At most so many attempts another queue's workers made: ours are newer."""


class RangeProgress(Message):
    """How far a range is, for whoever looks at its heartbeat.

    Marks claimed; the number of the last file stored in this attempt, and that of the file up to which all were tried;
    the vaults that are left alone, and why. An attempt that takes over needs none of it: the rows tell, page by page.
    """

    claimed: int
    files: int
    tried: int
    faults: dict[str, str] = Field(default_factory=dict)


class RangeReceipt(Message):
    """What one range did. ``kept`` counts marks by the reason to keep them, ``faults`` says why a vault was left alone.

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
    """Finish what earlier rounds claimed, and let the owner bring what is garbage by now."""

    round: int
    lease: Lease
    upload_grace_seconds: int
    cutoffs: dict[str, int] = Field(default_factory=dict)
    excluded_vaults: dict[str, str] = Field(default_factory=dict)


class Counts(Message):
    """What happened to objects and, for ``claimed`` and ``removed``, to marks.

    ``bytes_estimated`` is what owners said where nothing was measured; hidden objects are behind delete markers.
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
    """One kind of a round: what was due by its plan, what went, how long it took, who kept what, what went wrong."""

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
    """What somebody should know who looks, e.g. that no Spark worker took it."""


class RoundReport(Counts):
    """One round, told honestly; stored with it. ``leases`` above 1: it gave back its lease and went on, or lost it."""

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
    """Objects that are gone of claimed marks that are not finished: counted by the round that finishes those."""
    faults: int = 0
    """Marks kept because a vault could not be proved or an owner could not be asked: somebody must look."""
    tallies: tuple[KindVaultCounts, ...] = ()
    kinds: tuple[KindReport, ...] = ()
    vaults: dict[str, str] = Field(default_factory=dict)
    """Each vault of the instance: ``normal``, or why it was left alone."""
    leases: int = 1
    lost_leases: int = 0
    started_at: int | None = None
    ended_at: int | None = None


class TickRequest(Message):
    """Start the rounds that are due."""

    deployment: str


class DueInstances(Message):
    """Instances whose turn it is, the one that waited longest first, and how many rounds may start."""

    instances: tuple[str, ...] = ()
    slots: int = 0
    checks: tuple[str, ...] = ()
    """Instances whose check should start."""
    topics: bool = False
    """Whether topics are due to be purged."""
    binlogs: tuple[str, ...] = ()
    """Instances whose binlogs should be looked at."""
