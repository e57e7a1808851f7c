"""What a check finds, and what it must be able to show before anybody may act on it."""

from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.live import Part


class Type(StrEnum):
    """What does not agree."""

    LOST = "LOST"
    """A record names an object that is not there."""
    SIZE_MISMATCH = "SIZE_MISMATCH"
    """The object there has another size than its record says."""
    ORPHAN = "ORPHAN"
    """No record, mark or stored file names an object whose key says which record should."""
    UNKNOWN_KIND = "UNKNOWN_KIND"
    """No record names an object, and its key is none the owner makes: never a candidate."""
    UPLOAD = "UPLOAD"
    """A multipart upload that was begun long ago and never finished: it costs room and is seen in no listing."""
    RECORD = "RECORD"
    """Records that do not agree with each other; ``key`` names the record, ``detail`` says how."""


class FindingState(StrEnum):
    """Where a finding stands."""

    OPEN = "OPEN"
    ACCEPTED = "ACCEPTED"
    """Somebody said that it is as it should be; it is not shown as trouble again."""
    REPAIRED = "REPAIRED"
    GONE = "GONE"
    """A whole run did not find it any more."""


class Discrepancy(Message):
    """One disagreement, as one run saw it. Sizes are bytes; None: not known, or nothing there."""

    type: Type
    vault: str
    key: str
    expected: int | None = None
    size: int | None = None
    etag: str = ""
    record: str = ""
    """The record that names the object, or the one that its key says should."""
    detail: str = ""


class Finding(Discrepancy):
    """A disagreement over the runs that saw it. Instants are ms since 1970."""

    id: int
    instance: str
    state: FindingState = FindingState.OPEN
    first_seen: int
    proven_at: int | None = None
    """The cutoff of the first whole run of an unbroken row of whole runs that saw it."""
    proven_in: int | None = None
    """The last whole run that saw it."""
    confirmed_at: int | None = None
    said_by: str = ""
    """Who accepted it, and why."""


class Moment(NamedTuple):
    """The moment at which the live side is read: its name for those who read parts of it, and when it was (ms)."""

    name: str
    at: int
    parts: tuple[Part, ...]


class Listing(Message):
    """What came of listing one vault."""

    vault: str
    parts: int
    ended: int
    objects: int = 0
    young: int = 0
    """Objects younger than the grace: passed over."""
    live: int = 0
    """Live files, and live prefixes, that records name in it."""
    errors: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Tell whether all of it was listed."""
        return self.ended == self.parts and not self.errors


class Evidence(Message):
    """What a run saw, from which alone it is judged. Instants are ms since 1970."""

    cutoff: int
    """When it began: what is younger is none of its business."""
    listings: tuple[Listing, ...]
    listed_at: int | None = None
    """When the last listing ended."""
    live_from: int | None = None
    """When reading the live side began, by the database's clock."""
    live: int | None = None
    """Live files that the live side names; None: it was not read to its end."""
    prefixes: int = 0
    """Live prefixes among them: nobody can say whether all that is under one is there."""
    found: dict[str, int] = Field(default_factory=dict)
    """Type → how many findings."""
    too_late: tuple[str, ...] = ()
    """Vaults whose store removes versions before a check may tell of what was lost."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how it was done."""
    errors: tuple[str, ...] = ()

    @property
    def objects(self) -> int:
        """Return how many objects were listed, young ones left out."""
        return sum(its.objects for its in self.listings)


class CheckRequest(Message):
    """What a check is asked for; ``by``: who asks."""

    instance: str
    by: str = ""


class CheckOrder(Message):
    """One run's comparison of objects with records. ``inverted``: whether unknown objects are looked for too."""

    instance: str
    run: "Run"
    grace_seconds: int
    inverted: bool = True


class PreviousRun(Message):
    """What the last whole run of the instance saw, by vault: objects, and live names."""

    objects: dict[str, int]
    live: dict[str, int]


class RunState(StrEnum):
    """How far a run is, and what it may say."""

    RUNNING = "RUNNING"
    WHOLE = "WHOLE"
    PARTIAL = "PARTIAL"
    """It did not see everything: it confirms nothing, and calls nothing gone."""


class Run(Message):
    """One run of the check. Instants are ms since 1970."""

    id: int
    instance: str
    run: str
    state: RunState
    cutoff: int
    ended_at: int | None = None
    asked_by: str = ""
    evidence: Evidence | None = None
    lacks: tuple[str, ...] = ()


class OpenedCheck(Message):
    """A run that has begun: what is to be done, and whether it is so much that Spark should do it."""

    order: CheckOrder
    heavy: bool = False
    deployment: str = ""


class LookOrder(Message):
    """A second look, after a comparison that saw this."""

    order: CheckOrder
    evidence: Evidence


class ConcludeOrder(Message):
    """The end of a run, with what it saw."""

    instance: str
    run: Run
    evidence: Evidence


class CheckReport(Message):
    """What one run of a check came to."""

    run: Run
    found: dict[str, int] = Field(default_factory=dict)
    """Type → findings of it that are open now."""
    confirmed: dict[str, int] = Field(default_factory=dict)
    """Type → how many of these are confirmed."""

    @property
    def whole(self) -> bool:
        """Tell whether nothing was lacking."""
        return self.run.state is RunState.WHOLE


class Compared(Message):
    """A peer's memory against the records. ``unknown``: the peer has it alone; ``missing``: the records alone.

    Of each the first 100 are named, in order.
    """

    kind: str
    unknown: int = 0
    unknown_ids: tuple[str, ...] = ()
    missing: int = 0
    missing_ids: tuple[str, ...] = ()


class CheckSettings(Message):
    """What checks run with. Seconds and objects."""

    enabled: bool = True
    inverted: bool = True
    interval_seconds: int = 43_200
    grace_seconds: int = 86_400
    heavy_objects: int = 250_000


class Repaired(Message):
    """What a repair did, in objects. ``kept``: a last look said otherwise, or there was nothing to show."""

    found: int = 0
    marked: int = 0
    shown: int = 0
    kept: int = 0

    def plus(self, other: "Repaired") -> "Repaired":
        """Return both together."""
        names = type(self).model_fields
        return Repaired(**{n: getattr(self, n) + getattr(other, n) for n in names})


class RunVerdict(Message):
    """Whether a run may confirm anything, and if not, why."""

    lacks: tuple[str, ...] = Field(default=())

    @property
    def whole(self) -> bool:
        """Tell whether nothing is lacking: only then is anything confirmed, repaired or called gone."""
        return not self.lacks
