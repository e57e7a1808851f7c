"""Values of replicas: where they are placed, what a backend reports, and the state derived from it. Instants in ms."""

from typing import Annotated

from pydantic import FailFast, Field

from sexton.kernel.message import Message, StrictMessage
from sexton.replication.agent.model import MAX_VERSION, Id

MAX_BOOT = 2**48
"""The last boot of a backend, and the last sequence of a boot."""
MAX_BOOT_STEP = 2**40
"""How much a report may raise a backend's boot. Boots may be instants in ms, so it is 34 years."""

MAX_PLACED_COPIES = 20_000
"""The largest number of replicas of one placement."""
MAX_REPORTED_COPIES = 5_000
MAX_RANGES = 100_000
NO_VERSION = -1
Version = Annotated[int, Field(strict=True, ge=0, le=MAX_VERSION)]
Size = Version
"""A number of bytes or rows; also a boot or sequence number."""


class ReplicaSettings(Message):
    """Limits by which reports are judged."""

    freshness_seconds: int = 600
    """How long a report counts."""
    gap_persist_seconds: int = 60
    """A gap that lasts this long is a missing version, not a late arrival."""
    hold_limit_seconds: int = 86_400
    """How long an unhealthy replica still counts if another replica of the tablet is healthy."""


class Copy(StrictMessage):
    """One replica of a tablet. A replica that replaces another one has a uid of its own."""

    backend: Id
    uid: Id


class Tablet(StrictMessage):
    """A tablet of a partition, and all of its replicas; ``schema_hash``: of its index, None: as placed before."""

    tablet: Id
    part: Id = Field(alias="partition")
    copies: tuple[Copy, ...] = Field(max_length=100)
    schema_hash: Size | None = None


class Placements(StrictMessage):
    """All tablets of some partitions of a table. ``dropped``: partitions that were dropped."""

    tablets: Annotated[tuple[Tablet, ...], FailFast()] = Field((), max_length=MAX_PLACED_COPIES)
    dropped: Annotated[tuple[Id, ...], FailFast()] = Field((), alias="dropped_partitions", max_length=MAX_PLACED_COPIES)


class Placement(Placements):
    """The tablets of a table."""

    db: str
    table: str


class PlaceResult(Message):
    """The result of a placement, in replicas."""

    added: int = 0
    kept: int = 0
    removed: int = 0
    dropped: int = 0


class TabletReport(StrictMessage):
    """A backend's report on one replica: the version ranges of its rowsets, its highest version, or both.

    ``version_miss``: below the highest version one is missing. If no ranges show which, the replica needs everything
    from the last version that was known to be continuous.
    """

    uid: Id
    ranges: tuple[tuple[Version, Version], ...] | None = Field(None, alias="versions", max_length=MAX_RANGES)
    version: Annotated[int, Field(strict=True, ge=-1, le=MAX_VERSION)] | None = None
    """The highest version, as in Doris."""
    bad: bool = False
    version_miss: bool = False
    schema_hash: Size | None = None
    """A replica with another one than its tablet was placed with is bad; None: as reported before."""
    rows: Size = 0
    bytes: Size = 0


class ReplicaReport(StrictMessage):
    """A backend's report on its replicas, or a page of it.

    ``boot`` grows with each start of the backend, and ``sequence`` with each page.
    """

    boot: Size
    sequence: Size
    tablets: Annotated[tuple[TabletReport, ...], FailFast()] = Field((), max_length=MAX_REPORTED_COPIES)


class ReportReceipt(Message):
    """The result of a report, in replicas."""

    taken: int = 0
    stale: int = 0
    """Replicas with a newer report."""
    unknown: int = 0
    """Replicas that are not placed on the backend: they were replaced, or their table is dropped."""
    bad: int = 0
    missing: int = 0
    healthy: int = 0
    """Replicas that this report made bad, missing versions, or healthy again."""


class Replica(Message):
    """The state of a replica."""

    instance: str
    uid: str
    backend: str
    tablet: str
    db: str
    tbl: str
    part: str
    continuous_version: int = -1
    """All versions up to this one can be read, by the best report so far; -1: none. Not ``version`` of a report."""
    failed: int = -1
    """The missing version that is marked for repair; -1: none."""
    succeeded: int = -1
    needs: int = 0
    """The first version that it still needs, by its last report."""
    highest: int = -1
    bad_since: int | None = Field(None, alias="bad_since_at")
    gap_since: int | None = Field(None, alias="gap_since_at")
    crossing: bool = False
    """Two version ranges overlap and neither contains the other: the replica is corrupt."""
    boot: int = -1
    sequence: int = -1
    fresh_until: int = Field(0, alias="fresh_until_at")
    row_count: int = 0
    bytes: int = 0
    schema_hash: int | None = None
    reported_schema_hash: int | None = None
    full_copy: str = ""
    """Why it is FULL_COPY_ONLY and does not count; empty: it counts."""
    full_copy_at: int | None = None
    full_copy_until: int = Field(-1, alias="full_copy_until_at")
    """It counts again when it has this version and no version that may be deleted is missing."""
    gone: int = -1
    """Versions of the tablet up to this one may have been deleted, on any backend."""
    desired: int = -1
    granted: int = -1
    acked: int = -1
    problem: str = ""
    dropped: bool = False

    @property
    def bad(self) -> bool:
        """Tell whether the replica cannot be read at all."""
        return self.bad_since is not None

    @property
    def schema_differs(self) -> bool:
        """Tell whether it was last reported with another schema than its tablet was placed with."""
        hashes = (self.schema_hash, self.reported_schema_hash)
        return None not in hashes and len(set(hashes)) > 1

    @property
    def name(self) -> str:
        """Return the name of the replica as a blocker."""
        return f"replica {self.tablet} on {self.backend}"


class BackendStanding(Message):
    """A storage node and the counts of its replicas; those of dropped tables are in ``copies`` and ``behind`` only."""

    backend: str
    reported_at: int | None = None
    pulled_at: int | None = None
    queue_at: int | None = None
    """When the Sexton worker beside it last pulled."""
    copies: int = 0
    bad: int = 0
    missing: int = 0
    silent: int = 0
    """Replicas without a fresh report."""
    full_copy: int = 0
    by_limit: int = 0
    """Replicas that no longer count because they were unhealthy for too long, without an operator's order."""
    behind: int = 0
    """Replicas that have binlogs to delete."""
    problems: int = 0
    """Replicas for which the backend reported a problem."""
    quarantined: int = 0
    """The problems among them that need an operator."""
    problem: str = ""
    """One of the problems, a quarantined one if there is any."""


class RetainingReplica(Message):
    """Replicas on one backend for which others retain versions. Empty ``backend``: tablets where no replica counts."""

    backend: str
    copies: int = 0
    bad: int = 0
    missing: int = 0
    silent: int = 0
    since: int | None = Field(None, alias="since_at")
    """Since when the first of them is unhealthy; None: they are only slow."""

    @property
    def why(self) -> str:
        """Return in words what is wrong with the replicas."""
        if not self.backend:
            return "no replica counts, and the last good one may be among them"
        slow = self.copies - self.bad - self.missing - self.silent
        faults = ((self.bad, "bad"), (self.missing, "missing versions"), (self.silent, "without a fresh report"))
        texts = [f"{count:,} {fault}" for count, fault in faults if count]
        if slow > 0:
            texts.append(f"{slow:,} not as far yet")
        return ", ".join(texts)
