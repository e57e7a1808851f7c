"""Replicas of tablets as values: where they are, what a backend reports, and what is made of it. Instants in ms."""

from sexton.kernel.message import Message


class ReplicaSettings(Message):
    """What reports are judged by."""

    freshness_seconds: int = 600
    """For so long a report counts."""
    gap_persist_seconds: int = 60
    """After so long a gap is no late arrival any more."""
    hold_limit_seconds: int = 86_400
    """For so long a replica that is unwell counts, where another copy is well."""


class Copy(Message):
    """One copy of a tablet. A copy that replaces another one has an id of its own."""

    backend: str
    uid: str


class Tablet(Message):
    """A tablet of a partition, and all of its copies."""

    tablet: str
    part: str
    copies: tuple[Copy, ...]


class Placement(Message):
    """All tablets of some partitions of a table. ``dropped``: partitions that are no more."""

    db: str
    table: str
    tablets: tuple[Tablet, ...] = ()
    dropped: tuple[str, ...] = ()


class Placed(Message):
    """What a placement came to, in copies."""

    added: int = 0
    kept: int = 0
    removed: int = 0
    dropped: int = 0


class TabletReport(Message):
    """What a backend says of one copy: its rowsets' ranges of versions, or only the highest continuous version."""

    uid: str
    ranges: tuple[tuple[int, int], ...] | None = None
    version: int | None = None
    bad: bool = False
    version_miss: bool = False
    """It knows of a gap, and does not say where: behind ``version``."""
    rows: int = 0
    bytes: int = 0


class ReplicaReport(Message):
    """What a backend says of its copies, or a page of that.

    ``boot`` grows with each start of the backend, and ``sequence`` with each page.
    """

    boot: int
    sequence: int
    tablets: tuple[TabletReport, ...] = ()


class ReportReceipt(Message):
    """What became of a report, in copies."""

    taken: int = 0
    stale: int = 0
    """A newer report of them is known."""
    unknown: int = 0
    """Nobody has placed them there: they were replaced, or their table is dropped."""
    bad: int = 0
    missing: int = 0
    healthy: int = 0
    """They are bad, marked as missing versions, or in order again, since this report."""


class Replica(Message):
    """A copy as it is known."""

    instance: str
    uid: str
    backend: str
    tablet: str
    db: str
    tbl: str
    part: str
    version: int = -1
    """All versions up to it can be read, by the newest that was ever known; -1: none."""
    failed: int = -1
    """A version that it lacks, marked for repair; -1: none."""
    succeeded: int = -1
    needs: int = 0
    """The first version that it still has to get, by its last report."""
    highest: int = -1
    bad_since: int | None = None
    gap_since: int | None = None
    crossing: bool = False
    """Ranges of it overlap in a way that cannot be."""
    boot: int = -1
    sequence: int = -1
    fresh_until: int = 0
    row_count: int = 0
    bytes: int = 0
    full_copy: str = ""
    """Why it no longer counts: FULL_COPY_ONLY; empty: it counts."""
    full_copy_at: int | None = None
    full_copy_until: int = -1
    """It counts again when it has this version, and all that may be gone by then."""
    gone: int = -1
    """Up to here versions of the tablet may be gone, from whatever backend."""
    desired: int = -1
    granted: int = -1
    acked: int = -1
    problem: str = ""
    dropped: bool = False

    @property
    def bad(self) -> bool:
        """Tell whether it cannot be read at all."""
        return self.bad_since is not None

    @property
    def name(self) -> str:
        """Return what it is called where somebody is told who keeps something."""
        return f"replica {self.tablet} on {self.backend}"


class Backend(Message):
    """A storage node. ``queue_at``: when a worker of ours beside it pulled last."""

    instance: str
    name: str
    boot: int = -1
    sequence: int = -1
    reported_at: int | None = None
    pulled_at: int | None = None
    queue_at: int | None = None


class BackendStanding(Message):
    """A backend, and its copies in numbers; those of dropped tables count in ``copies`` and ``behind`` alone."""

    backend: str
    reported_at: int | None = None
    pulled_at: int | None = None
    queue_at: int | None = None
    copies: int = 0
    bad: int = 0
    missing: int = 0
    silent: int = 0
    """Without a fresh report."""
    full_copy: int = 0
    by_limit: int = 0
    """Of those that no longer count: so many were unwell for too long, and nobody said it of them."""
    behind: int = 0
    """They have something to let go."""
    problems: int = 0
    """Of them the backend told that something went wrong."""
    quarantined: int = 0
    """Of these: so many stay until a person has looked."""
    problem: str = ""
    """One of these, or of the others."""


class RetainingReplica(Message):
    """Copies on one backend for which others keep what should go. ``backend`` is empty: no copy of a tablet counts."""

    backend: str
    copies: int = 0
    bad: int = 0
    missing: int = 0
    silent: int = 0
    since: int | None = None
    """Since when the first of them is unwell; None: they are slow, no more."""

    @property
    def why(self) -> str:
        """Return what is wrong with them, in words."""
        if not self.backend:
            return "no copy counts any more, and the last good one may be among them"
        slow = self.copies - self.bad - self.missing - self.silent
        said = ((self.bad, "bad"), (self.missing, "missing versions"), (self.silent, "without a fresh report"))
        return ", ".join(
            [f"{n:,} {what}" for n, what in said if n] + ([f"{slow:,} not as far yet"] if slow > 0 else [])
        )
