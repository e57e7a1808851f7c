"""The messages of a round's workflow: requests, the open round, its progress and its end; and a round in a list.

Messages ignore unknown fields and set no bounds, because a replay reads old histories again. Instants are milliseconds
since 1970 on the database's clock.
"""

from pydantic import Field, computed_field

from sexton.kernel.message import Message
from sexton.marks.kept import KeptCounts
from sexton.marks.model import Cutoff, Lease
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.planning.model import Policy


class OpenedRound(Message):
    """A round that has been opened: its row, its lease, whether it may delete, the policy of its day."""

    round: int
    lease: Lease
    may_delete: bool
    policy: Policy
    vaults: tuple[str, ...] = ()
    cutoffs: dict[str, Cutoff] = Field(default_factory=dict)
    """Kind → which of its marks are due by an agreed retention; for the owner."""
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    """Vaults in which the round deletes nothing, because it could not write itself into their markers, and why."""
    fault_details: dict[str, str] = Field(default_factory=dict)
    heavy_objects: int | None = None
    """More objects than this are deleted on Spark; None: control workers delete all."""
    ranges_at_once: int = 4
    """Ranges of the round that run at the same time."""


class ShardProgress(Message):
    """The progress of one shard of a kind: up to ``cursor``, in so many ranges; ``limit``: marks it may still claim."""

    limit: int
    cursor: Cursor = Cursor()
    until: Cursor | None = None
    ranges: int = 0
    finished: bool = False


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
    shards: tuple[ShardProgress, ...] = ()
    finished: bool = False
    elapsed_ms: int = 0
    """How long at least one of its ranges ran."""
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

    ``doing``: the phase, one of WAITING (for its lease), ADOPTING, PLANNING, RECYCLING, CLOSING, ENDED, or why it waits
    for a signal, such as PAUSED.
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
    fault_details: dict[str, str] = Field(default_factory=dict)
    kept_by_adoption: KeptCounts = Field(default_factory=dict)
    quarantined_by_adoption: int = 0
    adoption_ms: int = 0
    adoption_note: str = ""


class RecycleRequest(Message):
    """Start one round. Without ``plan`` the round makes its own; an instance that only observes stops after it."""

    instance: str
    plan: int | None = None
    requested_by: str = ""
    carried: Carried | None = None


class OpenRoundOrder(Message):
    """Take the lease and open the round of ``run`` (empty: the calling workflow run)."""

    instance: str
    plan: int | None = None
    run: str = ""
    why: str = ""
    state: str = ""
    """Why, and in which state, the round ended before it was opened, where it did."""


class ReleaseOrder(Message):
    """Free the lease while the round waits; ``why`` is shown with the round. ``wait``: one of ``WAITS``, or empty."""

    opened: OpenedRound
    why: str
    wait: str = ""


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
    fault_details: dict[str, str] = Field(default_factory=dict)
    leases: int = 1
    lost_leases: int = 0
    adoption_ms: int = 0
    adoption_note: str = ""


class TickRequest(Message):
    """Start what is due: rounds, checks, purges and binlog GCs."""

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
    """Instances whose binlog GC should start."""


class RoundRow(Message):
    """One round in a list; instants in ms since 1970. A round without ``ended_at`` is running, or was cut off.

    ``state``: of its report, which says exactly how it ended; RUNNING without a report.
    """

    id: int = Field(alias="round")
    instance: str
    state: str
    started_at: int
    ended_at: int | None
    plan: int | None
    report: RoundReport | None
    waiting: str | None = None
    wait: str = ""
    waiting_since: int | None = Field(None, alias="waiting_since_at")
