"""Topics, the regions that share them, and what decides how far a topic may be purged. Instants in ms since 1970."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message

DAY = 86_400
MOST = 2**63 - 2
"""The largest id: the one behind it can still be held."""


class Mode(StrEnum):
    """What a purge does beside raising the floor."""

    DELETE = "delete"
    """Kafka is told to delete the records below it."""
    LOGICAL = "logical"
    """Nothing more: Kafka's own retention deletes."""


class KeepFromSource(StrEnum):
    """From where a region's ``keep_from`` is known."""

    MAP = "map"
    """The owner's map: where the region was when it was mapped."""
    FLUSHED = "flushed"
    IDLE = "idle"
    """The region had nothing in memory: the topic's last entry, as it was read before that was verified."""
    OPENED = "opened"
    """The region was opened from a manifest that knows less than was reported before."""
    RESET = "reset"
    """An operator said so."""


class RegionState(StrEnum):
    """What a region is to a topic."""

    MAPPED = "MAPPED"
    MOVED = "MOVED"
    """It appends elsewhere now, and holds until its entries here are flushed."""
    DROPPED = "DROPPED"
    """It holds until its drop can no longer be undone."""
    GONE = "GONE"
    """It holds nothing more; kept for the day on which it comes back, perhaps with an old manifest."""


class Why(StrEnum):
    """Why a topic is not purged."""

    NOT_ENABLED = "not enabled"
    PARTITIONS = "more than one partition"
    NO_REGIONS = "no regions known"
    MAP_STALE = "map stale"
    SILENT = "no report"
    STOPPED = "stopped"
    """An operator has stopped everything (``sexton stop --all``)."""
    FAULT = "log fault"
    """The log refuses, or does not answer."""


class Facts(Message):
    """What Kafka says of a topic; ``start``: the first entry there is, ``end``: the id that the next one gets."""

    id: str
    partitions: int = 1
    start: int = 0
    end: int = 0
    leader: int | None = None
    """Which leader told the end, counted from the first; None: the log has none."""


class Topic(Message):
    """A topic as we know it."""

    name: str
    kafka_id: str = ""
    """Empty: never seen."""
    enabled: bool = False
    mode: Mode = Mode.DELETE
    floor: int | None = None
    """Persisted, and only raised: nothing at or above it was ever deleted by us."""
    log_start: int | None = None
    """As observed; Kafka's own retention moves it too."""
    log_end: int | None = None
    quarantined: str = ""
    generation: int | None = None
    """Of the owner's map; None: there is no map."""
    map_digest: str = ""
    mapped_at: int | None = None
    emptied_at: int | None = None
    """Since when no region is mapped."""
    entry_bytes: float = 0.0
    """Of an entry, on average; 0: not known."""
    weighed_at: int | None = None
    """When that was looked at."""
    looked_at: int | None = None
    """When a purge last decided about it and nothing passing came in between; None: its turn is at once."""
    ok_at: int | None = None
    """When it was last enabled, or looked at for a purge without a fault of the log."""
    fault: str = ""
    """What the log refused when it was purged last."""
    freed: int = 0
    """Entries, ever."""
    blocked: dict[Why, int] = Field(default_factory=dict)
    """Why it was not purged when it was looked at last, each with since when."""


class Region(Message):
    """A region in a topic: one row for each topic in which it may have entries."""

    topic: str
    region: str
    epoch: int = 0
    first: int = 0
    """The topic's end when it was mapped here, before its first append: it never needs anything below."""
    keep_from: int | None = None
    """The first entry that it needs; None: nobody has said yet."""
    flushed: tuple[int, ...] = ()
    """How much its manifest knew when it reported: of each stream the last flushed entry + 1."""
    marks: int = 0
    """Their sum: a leader's manifest only grows, so of its reports the one with the highest sum is the newest."""
    waits: int | None = None
    """A ``keep_from`` that was reported above the topic's end as we know it: it counts when we see an end as high."""
    waits_marks: int | None = None
    waits_flushed: tuple[int, ...] | None = None
    source: KeepFromSource = KeepFromSource.MAP
    state: RegionState = RegionState.MAPPED
    reported_at: int | None = None
    node: str = ""
    releases_at: int | None = None
    """Of a dropped one: when its drop can no longer be undone."""
    until: int | None = None
    """Of one that moved: the topic's end as first seen after it moved; it needs nothing from there on."""


class Stream(Message):
    """How far one stream of entries of a region is safe; ids are inclusive."""

    flushed: int | None = Field(None, ge=0)
    idle: int | None = Field(None, ge=0)


class LeaderReport(Message):
    """What the leader of a region says of it, in one topic. A number that cannot be is ignored, not refused: a node's
    other reports count."""

    topic: str
    region: str
    epoch: int = Field(ge=0)
    streams: tuple[Stream, ...] = Field(min_length=1)
    leader: bool = True


class Pin(Message):
    """A region is being opened: it reads from ``start`` on."""

    id: str
    topic: str
    region: str
    start: int
    node: str = ""
    """Who opened it."""
    kafka_id: str = ""
    """Of the topic as it was known then; empty: never seen. Whoever reads looks whether it is still that one."""
    log_end: int = 0
    """Its end as it was known then."""
    opened_at: int = 0
    expires_at: int = 0
    lasts_ms: int = 0
    """For how long from the answer: clocks differ."""


class WalSettings(Message):
    """What purges run with."""

    flush_entries: int = 1_000_000
    flush_bytes: int = 512 * 2**20
    idle_grace_seconds: int = DAY
    map_stale_seconds: int = DAY
    pin_ttl_seconds: int = 300
    pin_max_seconds: int = DAY
    interval_seconds: int = 1_800
    """From one look at a topic to the next."""
    purge_entries: int = 10_000_000
    purge_bytes: int = 2**30
    """A topic of which so much could be purged is looked at before its time."""
    flush_timeout_seconds: int = 600
    flushes: bool = True
    at_once: int = 10
    """Pages of topics that are purged at a time."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """librdkafka's settings; without any the embedded log is purged."""


class Missing(Message):
    """Entries that somebody needs and that are not there any more; both ids inclusive."""

    region: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Block(Message):
    """One reason why a topic is not purged, in words for people."""

    why: Why
    said: str


class PurgeVerdict(Message):
    """How far a topic may be purged, or why not. ``losses`` are alarms, and stop no purge: what is gone is gone."""

    keep_from: int | None = None
    """The lowest that anybody needs; None where it is not known, or the topic is blocked."""
    holders: tuple[str, ...] = ()
    """Who needs it: regions and pins."""
    rose: bool = False
    """Whether the floor was raised to it just now."""
    blocked: tuple[Block, ...] = ()
    quarantine: str = ""
    losses: tuple[Missing, ...] = ()
    """Some of them."""
    lost: int = 0
    """How many."""


class Candidate(Message):
    """A region that is asked to flush. ``entries``: the topic's, from what it needs to the end."""

    topic: str
    region: str
    node: str
    keep_from: int
    entries: int
    bytes: int = 0
    url: str = ""
    """Of the node; empty: it never said."""


class LogStateBeforeRead(Message):
    """What was known before the log was asked: of what came after, the log's answer says nothing.

    ``safe``: by topic the highest of what regions need, the floor and the end: below it was an entry once.
    ``moved``: by topic the regions that went, and whose last entry is not known yet, as ``generation`` of the map says.
    """

    safe: dict[str, int] = Field(default_factory=dict)
    generation: dict[str, int] = Field(default_factory=dict)
    moved: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class Purge(Message):
    """A floor that was raised, and when Kafka was seen to have followed; ``freed``: entries."""

    topic: str
    kafka_id: str
    floor: int
    at: int
    log_end: int
    holders: dict[str, int]
    done_at: int | None = None
    log_start: int | None = None
    freed: int | None = None


class HeartbeatReceipt(Message):
    """What became of a node's reports: taken; waiting for the end of their topic to be seen as high; ignored."""

    taken: int = 0
    waiting: int = 0
    ignored: int = 0


class RegionMapping(Message):
    """A region in an owner's map. ``first``: the topic's end before the region's first append; None: not told.

    It counts when the region is mapped first; of one that comes back after its drop was final nothing is kept.
    """

    region: str
    epoch: int = Field(0, ge=0, le=MOST)
    first: int | None = Field(None, ge=0, le=MOST)


class RegionDrop(Message):
    """A region that was dropped, and for how long from now its drop can still be undone."""

    region: str
    undrop_seconds: int = Field(0, ge=0, le=3_650 * DAY)


class MapOrder(Message):
    """The regions of a topic, all of them, as the owner knows them.

    ``moved``: those that append elsewhere now, the last append here answered, and may have entries here. One that is
    named nowhere goes on to hold: it may have been forgotten.
    """

    topic: str
    generation: int = Field(ge=0, le=MOST)
    regions: tuple[RegionMapping, ...] = ()
    moved: tuple[str, ...] = ()
    dropped: tuple[RegionDrop, ...] = ()


class OpenRegionOrder(Message):
    """A region is to be opened. ``flushed``: of each stream the last entry that its manifest names, None: no file."""

    topic: str
    region: str
    epoch: int = Field(ge=0, le=MOST)
    flushed: tuple[Annotated[int, Field(ge=0, le=MOST)] | None, ...] = (None,)
    node: str = ""


class Purged(Message):
    """What came of purging a topic. ``freed``: entries; ``fault``: what the log refused, and whether that passes."""

    topic: str
    floor: int | None
    log_start: int | None
    freed: int
    verdict: PurgeVerdict
    fault: str = ""
    passes: bool = False


class Flushed(Message):
    """What came of asking regions to flush: how many were asked and did; who did not, and which nodes why."""

    asked: int = 0
    flushed: int = 0
    late: tuple[str, ...] = ()
    silent: dict[str, str] = Field(default_factory=dict)
