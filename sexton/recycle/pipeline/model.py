"""Orders to work on a range of marks or to finish claimed marks, and what their steps pass on and return.

Messages ignore unknown fields and set no bounds, because a replay reads old histories again. Instants are milliseconds
since 1970 on the database's clock.
"""

from collections import Counter

from pydantic import Field

from sexton.kernel.errors import TooManyObjects
from sexton.kernel.message import Message
from sexton.marks.kept import Kept, KeptCounts
from sexton.marks.model import Candidate, Cutoff, DueMark, File, Lease, Place, Ref, Unresolvable


class Cursor(Message):
    """A position in the order in which marks fall due: all marks up to and including it were examined."""

    retention_starts_at: int = 0
    id: str = ""


class RangeOrder(Message):
    """Work on one range of one shard of a kind: what is due after the cursor, up to about ``RANGE_OBJECTS`` objects."""

    round: int
    number: int
    lease: Lease
    plan: int = 0
    """The plan that the round applies; a worker compares the order with its row."""
    kind: str
    shard: int = 0
    cutoff: Cutoff
    limit: int
    after: Cursor = Cursor()
    until: Cursor | None = None
    """The last position of the shard; None: all that is due."""
    upload_grace_seconds: int
    allowance: int | None = None
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    attempts: int = 0
    """At most so many attempts were made by workers of another queue: attempts of this queue are newer."""
    most_objects: int | None = None
    """One process gives up when more are listed: Spark may be free. None: it deletes all."""


class RangeReceipt(Message):
    """The result of one range. ``kept``: marks by the reason to keep them; ``faults``: excluded vaults, and why.

    ``fault_details``: what the worker met in these vaults, for people. ``removed``, ``objects`` and ``bytes`` are those
    of the kind in the whole round so far.
    """

    scanned: int = 0
    claimed: int = 0
    last: Cursor = Cursor()
    finished: bool = False
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    quarantined: int = 0
    faults: dict[str, str] = Field(default_factory=dict)
    fault_details: dict[str, str] = Field(default_factory=dict)
    removed: int = 0
    objects: int = 0
    bytes: int = 0


class AdoptOrder(Message):
    """Finish the marks that earlier rounds claimed, and let the owner mark what has become garbage since."""

    round: int
    lease: Lease
    upload_grace_seconds: int
    cutoffs: dict[str, Cutoff] = Field(default_factory=dict)
    excluded_vaults: dict[str, str] = Field(default_factory=dict)
    attempts: int = 0
    most_objects: int | None = None


def refuse_many(order: RangeOrder | AdoptOrder, objects: int) -> None:
    """Raise ``TooManyObjects`` if so many are listed that one process gives up."""
    if order.most_objects is not None and objects > order.most_objects:
        raise TooManyObjects(f"more than {order.most_objects:,} objects are listed")


class Quarantined(Message):
    """A quarantined mark as operators see it; instants in ms since 1970."""

    instance: str
    kind: str
    id: str = Field(alias="mark")
    state: str
    reason: str
    failures: int
    last_error: str | None
    marked_at: int
    vault: str | None
    prefix: str | None
    keys: int
    bytes: int


class Chunk:
    """The result of resolving due marks: stored files, candidates for the claim, and marks that are left out."""

    def __init__(self, files_after: int = 0) -> None:
        """``files_after``: the number of the last file that is stored; the chunk's files are numbered above it."""
        self.files_after = self.last_file = files_after
        self.unstored: list[File] = []
        """Files that are listed and not stored yet."""
        self.seen = 0
        """How many of the due marks, in their order, the chunk covers."""
        self.files = 0
        self.resolved: list[DueMark] = []
        """Marks whose files are stored."""
        self.vaults: dict[Ref, frozenset[str]] = {}
        self.prefixes: dict[Ref, list[Place]] = {}
        self.candidates: dict[Ref, Candidate] = {}
        """Candidates: the marks, and the children that are claimed with them."""
        self.kept: Counter[Kept] = Counter()
        self.protected_bytes = 0
        """Bytes, as the owner states them, of marks that only protections keep."""
        self.unresolvable: list[Unresolvable] = []

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the marks whose files are stored."""
        return [mark.ref for mark in self.resolved]

    @property
    def resolved_candidates(self) -> list[Candidate]:
        """Return the marks whose files are stored, as candidates for a claim."""
        return [self.candidates[ref] for ref in self.refs]

    @property
    def quarantined(self) -> set[Ref]:
        """Return the names of the marks that could not be resolved."""
        return {problem.mark.ref for problem in self.unresolvable}
