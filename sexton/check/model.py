"""What a check finds, and what it must be able to show before anybody may act on it."""

from enum import StrEnum

from pydantic import Field

from sexton.message import Message


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


class State(StrEnum):
    """Where a finding stands."""

    OPEN = "OPEN"
    ACCEPTED = "ACCEPTED"
    """Somebody said that it is as it should be; it is not shown as trouble again."""
    REPAIRED = "REPAIRED"
    GONE = "GONE"
    """A whole run did not find it any more."""


class Found(Message):
    """One disagreement, as one run saw it. Sizes are bytes; None: not known, or nothing there."""

    type: Type
    vault: str
    key: str
    expected: int | None = None
    size: int | None = None
    etag: str = ""
    record: str = ""
    """The record that names the object, or the one that its key says should."""


class Finding(Found):
    """A disagreement over the runs that saw it. Instants are ms since 1970."""

    id: int
    instance: str
    state: State = State.OPEN
    first_seen: int
    proven_at: int | None = None
    """The cutoff of the first whole run of an unbroken row of whole runs that saw it."""
    confirmed_at: int | None = None
    said_by: str = ""
    """Who accepted it, and why."""


class Listing(Message):
    """What came of listing one vault."""

    vault: str
    parts: int
    ended: int
    objects: int = 0
    young: int = 0
    """Objects younger than the grace: passed over."""
    errors: tuple[str, ...] = ()


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
    """Files of the live side; None: it was not read to its end."""
    errors: tuple[str, ...] = ()

    @property
    def objects(self) -> int:
        """Return how many objects were listed, young ones left out."""
        return sum(its.objects for its in self.listings)


class Before(Message):
    """What the last whole run of the instance saw."""

    objects: int
    live: int


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
    evidence: Evidence | None = None
    lacks: tuple[str, ...] = ()


class Verdict(Message):
    """Whether a run may confirm anything, and if not, why."""

    lacks: tuple[str, ...] = Field(default=())

    @property
    def whole(self) -> bool:
        """Tell whether nothing is lacking: only then is anything confirmed, repaired or called gone."""
        return not self.lacks
