"""The figures of one scrape, as values. Instants are ms since 1970."""

from pydantic import Field

from sexton.insight.spark_slots import SparkSlots
from sexton.insight.views import Running
from sexton.kernel.message import Message
from sexton.operators.controls.model import Halt
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import PlaceFigures


class InstanceFigures(Message):
    """One instance. ``quiet_since``: its last success, or when it was enabled if later; None while it observes."""

    instance: str
    enabled: bool
    failures: int = 0
    last_success_at: int | None = None
    quiet_since: int | None = None
    next_round: int | None = None
    halt: Halt | None = None
    kinds: tuple[str, ...] = ()
    """Its kinds that have a retention."""
    oldest_due: dict[str, int] = Field(default_factory=dict)
    """Kind → the instant from which its oldest due mark ages."""
    quarantined: dict[str, int] = Field(default_factory=dict)
    claimed: int = 0
    awaiting_second_pass: int = 0
    """Claimed marks whose files are deleted, and whose prefix waits for its second pass."""
    holds: int = 0
    oldest_hold: int | None = None
    protections: int = 0
    """Protections that their jobs have not finished."""
    soft_protections: int = 0
    """Finished protections that wait for the watermark."""
    oldest_protection: int | None = None
    approvals: int = 0
    oldest_approval: int | None = None
    unasked_objects: int = 0
    """Objects claimed under the limits, without approval, in the last 24 hours."""
    findings: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Type → findings open at the end of the last check, and the confirmed ones among them."""
    live_prefixes: int = 0
    """Live rows of the last check that name a prefix."""
    too_late_vaults: int = 0
    """Vaults for which the last check reported that checks are too rare to undo a loss in time."""
    whole_check: int | None = None
    """When the last complete check began; before the first: when an instance with a live view was enabled."""
    vaults: tuple[str, ...] = ()
    last: RoundReport | None = None
    running: Running | None = None
    """The round that has not ended."""
    check_since: int | None = None
    """When the check began that runs now."""


class WalFigures(Message):
    """All topics together. Instants are ms since 1970; ages begin there."""

    topics: int = 0
    """Enabled topics; the other figures count only these."""
    blocked: dict[str, int] = Field(default_factory=dict)
    """Reason → topics, as in ``wal.model.Why`` without NOT_ENABLED."""
    blocked_since: int | None = Field(None, alias="blocked_since_at")
    """When the topic that is blocked longest was blocked; operators' stops are not counted."""
    quarantined: int = 0
    faulty: int = 0
    """Topics whose log refused a request, or did not answer, at their last purge."""
    lost_regions: int = 0
    """Regions that need entries that are deleted."""
    lagging_regions: int = 0
    """Regions so far behind that a purge asks them to flush."""
    ok_since: int | None = Field(None, alias="ok_since_at")
    """The last purge without an error of the topic for which that is longest ago."""
    entries: int = 0
    """Entries in the topics, at their last purge."""
    bytes: int = 0
    freed: int = 0
    """Entries deleted so far."""
    replays: int = 0
    oldest_replay: int | None = None


class BinlogFigures(Message):
    """Binlogs, the journal and the replicas of one instance that has any of them. Instants are ms since 1970."""

    instance: str
    quiet_since: int | None = None
    """The last successful GC, or when the instance was enabled if later; None: it only observes, or has no log."""
    logs: int = 0
    """Enabled logs: a database's own log, or those of its tables where it has none."""
    records: int = 0
    bytes: int = 0
    held: int = 0
    """Logs with expired records that a consumer holds."""
    held_since: int | None = None
    waiting: int = 0
    """Cuts that wait for an operator's approval."""
    waiting_since: int | None = None
    refusals: int = 0
    """GCs so far that cut nothing because of the clock."""
    cuts: int = 0
    """Cuts so far."""
    consumers: int = 0
    lost_consumers: int = 0
    entries: int = 0
    """Entries of the journal that can be read."""
    followers: int = 0
    lag: int = 0
    """Entries that the slowest follower, LOST ones not counted, has not applied yet."""
    lost_followers: int = 0
    backends: int = 0
    """Backends that have sent a report or pulled cuts."""
    behind_backends: int = 0
    """Backends with copies whose binlogs should be deleted."""
    unheard_backends: int = 0
    """Such backends that have never pulled cuts."""
    pulled_since: int | None = None
    """The last pull of such a backend for which that is longest ago."""
    behind: int = 0
    """Copies with binlogs that should be deleted and are not reported as deleted."""
    blocked: int = 0
    """Such copies of which not everything may be deleted, as another copy may need it; a lower bound where there are
    many."""
    unwell: dict[str, int] = Field(default_factory=dict)
    """State (``metrics.labels.STATES``) → copies; one copy may be in several states."""
    bad_since: int | None = None
    missing_since: int | None = None
    """When the oldest gap began, of copies that are marked for repair."""
    problems: dict[str, int] = Field(default_factory=dict)
    """Outcome (``metrics.labels.OUTCOMES``) → copies for which their backend reported it last."""


class Figures(Message):
    """All figures of one scrape. ``unreadable`` counts failed reads of stored reports and of the tables' sizes."""

    now: int
    interval_seconds: int
    retention_seconds: dict[str, int]
    """Retention of each kind that an instance has; the longest, where two owners have a kind of the same name."""
    max_delete_objects: int = 0
    running: int = 0
    unreadable: int = 0
    instances: tuple[InstanceFigures, ...] = ()
    paces: tuple[PlaceFigures, ...] = ()
    wal: WalFigures = WalFigures()
    wal_interval_seconds: int = 0
    binlogs: tuple[BinlogFigures, ...] = ()
    binlog_interval_seconds: int = 0
    expiring_tokens: int = 0
    """Tokens that were used lately and end within two weeks."""
    spark: SparkSlots = SparkSlots()
    table_bytes: dict[str, int] = Field(default_factory=dict)
    """Table of Sexton → bytes on disk; empty: unknown."""
    counters: dict[tuple[str, str, str], int] = Field(default_factory=dict)
    """(instance, name, label) → value, as ``recycle.rounds.counters`` names them."""

    def totals(self, counter: str) -> dict[tuple[str, str], int]:
        """Return a counter by (instance, kind), with 0 where it has no value yet: Prometheus needs the first sample."""
        zeros = {(i.instance, kind): 0 for i in self.instances for kind in i.kinds}
        counted = {(i, kind): n for (i, name, kind), n in self.counters.items() if name == counter and kind != "*"}
        return dict(sorted((zeros | counted).items()))
