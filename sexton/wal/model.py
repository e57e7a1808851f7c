"""Define topics, the regions that share them, and the verdict on a purge. Instants are ms since 1970."""

from enum import StrEnum

from pydantic import Field

from sexton.kernel.message import Message

DAY = 86_400
MOST = 2**63 - 2
"""The largest entry id: its successor must still fit into 64 bits."""

MAX_EPOCH = 2**48
"""The last epoch of a region, and the last generation of a map."""
MAX_EPOCH_STEP = 2**20
"""How much an opening may raise an epoch, so that no node uses up a region's epochs. The owner's map may raise more."""
MAX_GENERATION_STEP = 2**36
"""How much a map may raise its generation, so that a wrong number does not use them up: two years in ms."""
MAX_REPLAYS = 100
"""Pins that a node may have on one region: a node that crashes while it opens leaves one, until that expires."""
MAX_TOPIC_REGIONS = 50_000
"""Regions of a topic that are mapped or still retain entries. A purge decides about all of them at once."""


class Mode(StrEnum):
    """What a purge does after it has raised the floor."""

    DELETE = "delete"
    """It makes Kafka delete the records below the floor."""
    LOGICAL = "logical"
    """It deletes nothing: Kafka's own retention deletes."""


class KeepFromSource(StrEnum):
    """Where a region's ``keep_from`` comes from."""

    MAP = "map"
    """The owner's map: the topic's end when the region was mapped."""
    FLUSHED = "flushed"
    IDLE = "idle"
    """The region had nothing in memory: the topic's last entry, read before the node verified that."""
    OPENED = "opened"
    """The region was opened from a manifest that knows less than an earlier report."""
    RESET = "reset"
    """An operator set it."""


class RegionState(StrEnum):
    """The relation of a region to a topic."""

    MAPPED = "MAPPED"
    MOVED = "MOVED"
    """The region appends to another topic now; it blocks deletion until its entries in this topic are flushed."""
    DROPPED = "DROPPED"
    """The region blocks deletion until its drop can no longer be undone."""
    GONE = "GONE"
    """The region needs no entry; its row is kept in case it returns, perhaps with an old manifest."""


class BlockReason(StrEnum):
    """Why a topic is not purged."""

    NOT_ENABLED = "not enabled"
    PARTITIONS = "more than one partition"
    NO_REGIONS = "no regions known"
    MAP_STALE = "map stale"
    SILENT = "no report"
    STOPPED = "stopped"
    """An operator has stopped the topic's instance, or everything (``sexton stop``)."""
    FAULT = "log fault"
    """The log refuses a request, or does not answer."""


class Facts(Message):
    """Kafka's answer about a topic; ``start``: its first entry, ``end``: the id of the entry appended next."""

    id: str
    partitions: int = 1
    start: int = 0
    end: int = 0
    leader: int | None = None
    """The epoch of the leader that reported the end; None: the log has no leaders."""


class Topic(Message):
    """A topic, as the database knows it."""

    name: str
    instance: str = ""
    kafka_id: str = ""
    """Empty: no purge has seen the topic yet."""
    enabled: bool = False
    mode: Mode = Mode.DELETE
    floor: int | None = None
    """Persisted, and only raised: Sexton has deleted no entry at or above it."""
    log_start: int | None = None
    """As last observed; Kafka's own retention moves it too."""
    log_end: int | None = None
    quarantined: str = ""
    generation: int | None = None
    """The generation of the owner's map; None: there is no map."""
    map_digest: str = ""
    mapped_at: int | None = None
    emptied_at: int | None = None
    """When the last region of the topic became GONE; None: a region is mapped, or none ever was."""
    entry_bytes: float = 0.0
    """Average bytes of an entry; 0: not known."""
    entry_bytes_at: int | None = None
    """When ``entry_bytes`` was last estimated."""
    checked_at: int | None = None
    """When a purge last decided about the topic without a transient fault; None: the topic is due at once."""
    ok_at: int | None = None
    """When the topic was last enabled, or purged without a fault of the log."""
    fault: str = ""
    """What the log refused at the last purge."""
    freed: int = 0
    """Entries that purges have deleted so far."""
    blocked: dict[BlockReason, int] = Field(default_factory=dict)
    """Why the last purge did not delete, each reason with the instant since which it holds."""


class Region(Message):
    """A region in a topic: one row for each topic in which the region may have entries."""

    topic: str
    region: str
    epoch: int = 0
    first: int = 0
    """The topic's end when the region was mapped to it, before its first append: the region needs no entry below."""
    keep_from: int | None = None
    """The first entry that the region needs; None: not reported yet."""
    flushed: tuple[int, ...] = ()
    """For each stream, the highest flushed entry + 1 that the leader has reported: what its manifest must name."""
    pending_keep_from: int | None = None
    """A reported ``keep_from`` above the topic's known end: it counts once a purge sees an end that high."""
    pending_flushed: tuple[int, ...] | None = None
    source: KeepFromSource = KeepFromSource.MAP
    state: RegionState = RegionState.MAPPED
    reported_at: int | None = None
    mapped_node: str = ""
    """The node that the owner's map names; empty: it names none."""
    node: str = ""
    """The node that has opened or reported the region in this epoch."""
    releases_at: int | None = None
    """DROPPED: when the drop can no longer be undone."""
    until: int | None = None
    """MOVED: the topic's end as first seen after the move; the region needs no entry at or above it."""

    @property
    def leader(self) -> str:
        """The only node that may report or open the region; empty: the first one that does."""
        return self.mapped_node or self.node


class Pin(Message):
    """A region that is being opened: it reads its topic from ``start`` on."""

    id: str
    topic: str
    region: str
    start: int
    node: str = ""
    """The node that opens the region."""
    kafka_id: str = ""
    """The topic's id as known when the pin was made; empty: never seen. The reader verifies that it is unchanged."""
    log_end: int = 0
    """The topic's end as known when the pin was made."""
    opened_at: int = 0
    expires_at: int = 0
    lasts_ms: int = 0
    """How long the pin lasts, counted from the answer, because clocks differ."""


class WalSettings(Message):
    """Configure WAL purges; the names are those of the section ``wal``, where that has the same values."""

    trigger_flush_entries: int = 1_000_000
    trigger_flush_bytes: int = 512 * 2**20
    topic_idle_grace_seconds: int = DAY
    map_stale_seconds: int = DAY
    replay_pin_ttl_seconds: int = 300
    replay_pin_max_seconds: int = DAY
    auto_purge_interval_seconds: int = 1_800
    """Between two scheduled purges of a topic."""
    purge_trigger_entries: int = 10_000_000
    purge_trigger_bytes: int = 2**30
    """A topic from which a purge could delete this much is due before its interval is over."""
    flush_timeout_seconds: int = 600
    flushes: bool = True
    flush_nodes: tuple[str, ...] = ()
    """Hosts and networks of the nodes that are asked to flush; none: everywhere but on this machine."""
    flush_secret: str = Field(default="", repr=False)
    """What requests to flush are signed with; empty: they are not."""
    flushes_loopback: bool = False
    """Whether nodes on this machine are asked, too: in development."""
    max_instance_regions: int = 200_000  # mapped, or still retaining entries
    auto_purge_parallelism: int = 10
    """Topics that one worker purges in parallel, and pages of topics that it reviews in parallel."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """librdkafka's settings; without any, the embedded log is purged."""


class Missing(Message):
    """Entries that a region needs and that are deleted already; both ids inclusive."""

    region: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Block(Message):
    """One reason why a topic is not purged; ``said``: the reason as a sentence."""

    why: BlockReason
    said: str


class PurgeVerdict(Message):
    """How far a topic may be purged, or why not. ``losses`` raise alarms and block no purge: they cannot be undone."""

    keep_from: int | None = None
    """The lowest entry that a region or replay needs; None: not known, or the topic is blocked."""
    holders: tuple[str, ...] = ()
    """The regions and replays that need it."""
    rose: bool = False
    """Whether this purge raised the floor to it."""
    work: bool = False
    """Whether a review found that a purge would delete entries, or that regions should flush."""
    blocked: tuple[Block, ...] = ()
    quarantine: str = ""
    losses: tuple[Missing, ...] = ()
    """At most the first 100."""
    lost: int = 0
    """The number of all losses."""


class FlushCandidate(Message):
    """A region that should flush. ``entries``: entries of the topic from the first one it needs to the end."""

    instance: str = ""
    topic: str
    region: str
    node: str
    keep_from: int
    entries: int
    bytes: int = 0
    url: str = ""
    """Where its node takes requests; empty: the node never reported an address."""


class LogStateBeforeRead(Message):
    """What the database knew before a purge read the log: the log's answer proves nothing about later changes.

    ``safe``: for each topic the highest of its regions' needs, its floor and its end; an entry below it has existed.
    ``moved``: for each topic the moved regions without a known last entry, under the map's ``generation``.
    """

    safe: dict[str, int] = Field(default_factory=dict)
    generation: dict[str, int] = Field(default_factory=dict)
    moved: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class Purge(Message):
    """A raised floor, and when Kafka was seen to have deleted up to it; ``freed``: entries."""

    topic: str
    kafka_id: str
    floor: int
    at: int = Field(alias="happened_at")
    log_end: int
    holders: dict[str, int]
    done_at: int | None = None
    log_start: int | None = None
    freed: int | None = None


class Purged(Message):
    """The result of purging a topic. ``freed``: entries; ``fault``: the log's refusal; ``passes``: it is transient."""

    topic: str
    floor: int | None
    log_start: int | None
    freed: int
    verdict: PurgeVerdict
    fault: str = ""
    passes: bool = False


class Flushed(Message):
    """The result of asking regions to flush; ``late`` names some; ``silent``: node that took no request → why."""

    asked: int = 0
    flushed: int = 0
    late: tuple[str, ...] = ()
    silent: dict[str, str] = Field(default_factory=dict)


class RegionLag(Message):
    """How far a region lags, in entries of the topic and in estimated bytes. ``holds``: it still needs entries."""

    region: Region
    holds: bool
    entries: int | None
    bytes: int | None


class TopicStanding(Message):
    """A topic as it was last seen, its replays, and up to 1,000 of its regions, those with the oldest entries first."""

    topic: Topic
    lines: tuple[RegionLag, ...]
    regions: int
    pins: tuple[Pin, ...]
    now: int = Field(alias="now_at")


class TopicExplanation(TopicStanding):
    """A topic whose log was just read, with its verdict.

    ``frees`` and ``bytes``: what a purge would delete. ``behind``: how many regions it would ask to flush first.
    """

    verdict: PurgeVerdict
    frees: int
    bytes: int
    behind: int
