"""The figures of one scrape, as values. Instants are ms since 1970."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.operators.controls.model import Halt
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import PlaceFigures


class InstanceFigures(Message):
    """One instance. ``quiet_since``: its last success or its enabling, whichever is later; None while it observes."""

    instance: str
    enabled: bool
    failures: int = 0
    last_success_at: int | None = None
    quiet_since: int | None = None
    next_round: int | None = None
    halt: Halt | None = None
    kinds: tuple[str, ...] = ()
    """Kinds that have a retention in it."""
    oldest_due: dict[str, int] = Field(default_factory=dict)
    """Kind → what its oldest due mark ages from."""
    quarantined: dict[str, int] = Field(default_factory=dict)
    claimed: int = 0
    late: int = 0
    """Those of the claimed whose files are gone and that wait to be listed once more."""
    holds: int = 0
    oldest_hold: int | None = None
    protections: int = 0
    """Those of jobs that have not finished them."""
    soft_protections: int = 0
    """Those that are finished and wait for the watermark."""
    oldest_protection: int | None = None
    approvals: int = 0
    oldest_approval: int | None = None
    unasked_objects: int = 0
    """Objects claimed under the limits within the last 24 hours."""
    findings: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Type → findings open at the end of the last check, and how many of them are confirmed."""
    too_late_vaults: int = 0
    """Vaults of which the last check said that it may tell of a loss too late to undo it."""
    whole_check: int | None = None
    """When the last check began that saw everything."""
    vaults: tuple[str, ...] = ()
    last: RoundReport | None = None


class WalFigures(Message):
    """All topics together. Instants are ms since 1970; ages begin there."""

    topics: int = 0
    """Those that are enabled; so are all that the others count."""
    blocked: dict[str, int] = Field(default_factory=dict)
    """Why → topics; as ``wal.model.Why`` but for NOT_ENABLED."""
    blocked_since: int | None = None
    """Of the one that was blocked first; by a stop is none of them."""
    quarantined: int = 0
    faulty: int = 0
    """Those whose log refused something, or did not answer, when they were purged last."""
    lost_regions: int = 0
    """Regions that need what is gone."""
    ok_since: int | None = None
    """Of the topic for which it is longest that it was purged without a fault."""
    entries: int = 0
    """Kept in the log, by what was seen last."""
    bytes: int = 0
    freed: int = 0
    """Entries, ever."""
    replays: int = 0
    oldest_replay: int | None = None


class BinlogFigures(Message):
    """Binlogs, the journal and the replicas of one instance that has any of them. Ages begin at instants."""

    instance: str
    quiet_since: int | None = None
    """The last look that went well, or the enabling, whichever is later; None: it only observes, or keeps no log."""
    logs: int = 0
    """Those that are kept: of a database with a log of its own that one, else those of its tables."""
    records: int = 0
    bytes: int = 0
    held: int = 0
    """Those of which a consumer holds what has expired."""
    held_since: int | None = None
    waiting: int = 0
    """Cuts that wait for a person's approval."""
    waiting_since: int | None = None
    refusals: int = 0
    """Looks that cut nothing because of the clock, ever."""
    cuts: int = 0
    """Ever."""
    consumers: int = 0
    lost_consumers: int = 0
    entries: int = 0
    """Of the journal, that are kept."""
    followers: int = 0
    lag: int = 0
    """How many entries the slowest follower that is not LOST has still to apply."""
    lost_followers: int = 0
    backends: int = 0
    """Those that have reported or pulled."""
    behind_backends: int = 0
    """Those with copies of which something should go."""
    unheard_backends: int = 0
    """Those of them that have never pulled."""
    pulled_since: int | None = None
    """When the one of them pulled that has not for longest."""
    behind: int = 0
    """Copies of which something should go and is not known to be gone."""
    blocked: int = 0
    """Those of them of which not all may go, for a copy may need it; where there are very many, at least so many."""
    unwell: dict[str, int] = Field(default_factory=dict)
    """State → copies, as ``metrics.labels.STATES``; one copy may be in several."""
    bad_since: int | None = None
    missing_since: int | None = None
    """Of the copy whose gap is oldest, of those that are marked for repair."""
    problems: dict[str, int] = Field(default_factory=dict)
    """Outcome → copies of which a backend told it last, as ``metrics.labels.OUTCOMES``."""


class Figures(Message):
    """Everything one look at the database gives. ``unreadable`` counts stored reports that could not be understood."""

    now: int
    interval_seconds: int
    retention_seconds: dict[str, int]
    """Of every kind that an instance has; the longest, where two owners have a kind of one name."""
    max_delete_objects: int = 0
    running: int = 0
    unreadable: int = 0
    instances: tuple[InstanceFigures, ...] = ()
    paces: tuple[PlaceFigures, ...] = ()
    wal: WalFigures = WalFigures()
    wal_interval_seconds: int = 0
    binlogs: tuple[BinlogFigures, ...] = ()
    binlog_interval_seconds: int = 0
    counters: dict[tuple[str, str, str], int] = Field(default_factory=dict)
    """(instance, name, label) → value, as ``recycle.counters`` names them."""

    def totals(self, counter: str) -> dict[tuple[str, str], int]:
        """Return a counter by (instance, kind); 0 where nothing was counted yet: a series that begins later is cut."""
        found = {(i.instance, kind): 0 for i in self.instances for kind in i.kinds}
        counted = {(i, kind): n for (i, name, kind), n in self.counters.items() if name == counter and kind != "*"}
        return dict(sorted((found | counted).items()))
