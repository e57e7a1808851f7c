"""Define findings, the evidence of a run, and the orders and reports of a check's steps.

Define a way to compare objects with records, and the errors of the capability.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from pydantic import Field, computed_field

from sexton.kernel.errors import NotFound
from sexton.kernel.message import Message
from sexton.marks.live import Part
from sexton.storage.model import VaultSpec


class FindingType(StrEnum):
    """How objects and records disagree."""

    LOST = "LOST"
    """A record names an object that does not exist."""
    SIZE_MISMATCH = "SIZE_MISMATCH"
    """The object has another size than its record gives."""
    ORPHAN = "ORPHAN"
    """No record, mark or stored file names the object, although its key has the form of the owner's keys."""
    UNKNOWN_KIND = "UNKNOWN_KIND"
    """No record names the object, and the owner makes no keys of this form: never a candidate for deletion."""
    UPLOAD = "UPLOAD"
    """A multipart upload that was begun long ago and never finished: it takes space, and no listing shows it."""
    RECORD = "RECORD"
    """A record that contradicts another one; ``key`` names the record, ``detail`` describes the contradiction."""
    FRONT_END = "FRONT_END"
    """The memory of the owner's front end and its records disagree about a record, which ``key`` names."""


MEANING = {
    FindingType.LOST: "a record names the object, and it does not exist",
    FindingType.SIZE_MISMATCH: "the record names another size",
    FindingType.ORPHAN: "no record names the object",
    FindingType.UNKNOWN_KIND: "no record names the object, and its key is not one of the owner's: never deleted",
    FindingType.UPLOAD: "uploads that were never finished",
    FindingType.RECORD: "records that contradict each other",
    FindingType.FRONT_END: "the front end's memory and the records disagree",
}
"""What a finding of each type means, in an answer; one that has a detail has it instead."""


class FindingState(StrEnum):
    """The states of a finding."""

    OPEN = "OPEN"
    ACCEPTED = "ACCEPTED"
    """An operator accepted it as correct; it is not reported again."""
    REPAIRED = "REPAIRED"
    GONE = "GONE"
    """A later whole run did not find it again."""


class Discrepancy(Message):
    """One disagreement, as one run saw it. Sizes are in bytes; None: unknown, or no object."""

    type: FindingType
    vault: str
    key: str
    expected: int | None = None
    size: int | None = None
    etag: str = ""
    written: str = ""
    """When the object was last written, as ``ListedObject.written``; empty: unknown, or no object."""
    record: str = ""
    """The record that names the object, or the record that should name it according to its key."""
    detail: str = ""


class Finding(Discrepancy):
    """A disagreement, with its history over all runs that saw it. Instants are ms since 1970."""

    id: int = Field(alias="finding")
    instance: str
    state: FindingState = FindingState.OPEN
    first_seen: int = Field(alias="first_seen_at")
    proven_at: int | None = None
    """The cutoff of the first of the consecutive whole runs that saw it."""
    proven_in: int | None = None
    """The last whole run that saw it."""
    confirmed_at: int | None = None
    accepted_by: str = ""
    """Who accepted it, and for what reason."""


class Moment(NamedTuple):
    """The snapshot in which the live side is read, under a name with which others read parts.

    ``at``: as of when its content is true, ms since 1970; of a copy that is the moment of its last refresh.
    """

    name: str
    at: int
    parts: tuple[Part, ...]


class Listing(Message):
    """The result of listing one vault."""

    vault: str
    parts: int
    """Parts into which the listing was split."""
    ended: int
    """Parts that were listed to their end."""
    objects: int = 0
    """Objects listed, young ones left out."""
    young: int = 0
    """Objects younger than the grace period: skipped."""
    live: int = 0
    """Live files and live prefixes that records name in this vault."""
    inventory_at: int | None = None
    """As of when the inventory was that was read instead of a listing, ms since 1970; None: the vault was listed."""
    unnamed: int | None = None
    """Of ``objects``: those that no record names; None: they were not looked for."""
    errors: tuple[str, ...] = ()

    @property
    def named_share(self) -> float | None:
        """Return the share of the objects that records name; None: it is unknown."""
        return None if self.unnamed is None or not self.objects else 1 - self.unnamed / self.objects

    @property
    def whole(self) -> bool:
        """Return whether the whole vault was listed."""
        return self.ended == self.parts and not self.errors


class Evidence(Message):
    """What a run saw. The run is judged from this alone. Instants are ms since 1970."""

    cutoff: int = Field(alias="cutoff_at")
    """When the run began: it does not judge younger objects."""
    listings: tuple[Listing, ...]
    listed_at: int | None = None
    """When the last listing ended."""
    live_from: int | None = Field(None, alias="live_from_at")
    """When the run began to read the live side, by the database's clock."""
    live: int | None = None
    """Live files that the live side names; None: the live side was not read to its end."""
    prefixes: int = 0
    """Live prefixes that it names: the check cannot tell whether all objects under one exist."""
    inverted: bool = True
    """Whether objects that no record names were looked for."""
    found: dict[str, int] = Field(default_factory=dict)
    """Finding type → number of findings."""
    unread: tuple[str, ...] = ()
    """Types of findings whose source could not be read to its end: their older findings stay."""
    too_late: tuple[str, ...] = ()
    """Vaults whose store removes object versions before a check may report a loss."""
    notes: tuple[str, ...] = ()
    """Remarks on how the run was done."""
    errors: tuple[str, ...] = ()

    @property
    def objects(self) -> int:
        """Return how many objects were listed, young ones left out."""
        return sum(listing.objects for listing in self.listings)


class CheckRequest(Message):
    """Check one instance."""

    instance: str
    requested_by: str = ""


class CheckProgress(Message):
    """What a running check is doing. ``check``: its number, None before it has begun."""

    instance: str
    doing: str
    check: int | None = None
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


class CheckOrder(Message):
    """The comparison of objects with records in one run. ``inverted``: whether to report unknown objects too."""

    instance: str
    run: "Run"
    grace_seconds: int
    inverted: bool = True
    most_objects: int | None = None
    """One process gives up after it has listed so many objects: Spark may be free. None: it lists all."""


class PreviousRun(Message):
    """What the last whole run of the instance saw: vault → objects, and vault → live files and prefixes.

    ``named_share``: vault → the share of its objects that records named.
    """

    objects: dict[str, int]
    live: dict[str, int]
    named_share: dict[str, float] = Field(default_factory=dict)


class RunState(StrEnum):
    """The states of a run."""

    RUNNING = "RUNNING"
    WHOLE = "WHOLE"
    """It is whole: nothing was missing from its evidence."""
    PARTIAL = "PARTIAL"
    """The run did not see everything: it confirms no finding, and sets none to GONE."""


class CheckCounts(Message):
    """How far a check is: objects and records of the live side that it has listed and read, and the time it took (ms).

    What is expected is what the last whole run listed and read; 0: that is unknown. The time is 0 once the check ended.
    """

    listed: int = 0
    records: int = 0
    expected_objects: int = 0
    expected_records: int = 0
    counting_ms: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def seconds_left(self) -> float | None:
        """Return the time that listing and reading still take at the rate so far; None: it is unknown, or over."""
        done, expected = self.listed + self.records, self.expected_objects + self.expected_records
        is_known = self.counting_ms and 0 < done < expected
        return (expected - done) * self.counting_ms / done / 1000 if is_known else None


class Run(CheckCounts):
    """One run of the check. Instants are ms since 1970."""

    id: int = Field(alias="check")
    instance: str
    run: str
    state: RunState
    cutoff: int = Field(alias="cutoff_at")
    ended_at: int | None = None
    asked_by: str = ""
    evidence: Evidence | None = None
    missing_inputs: tuple[str, ...] = ()


class OpenedCheck(Message):
    """A run that has begun: its order, and whether the instance is so large that Spark should compare it."""

    order: CheckOrder
    heavy: bool = False
    deployment: str = ""


class SecondCheckOrder(Message):
    """The second check of findings, after a comparison that saw this evidence."""

    order: CheckOrder
    evidence: Evidence


class ConcludeOrder(Message):
    """The conclusion of a run from its evidence."""

    instance: str
    run: Run
    evidence: Evidence


class CheckReport(Message):
    """The result of one run."""

    run: Run
    found: dict[str, int] = Field(default_factory=dict)
    """Finding type → findings that are open now."""
    confirmed: dict[str, int] = Field(default_factory=dict)
    """Finding type → how many of these are confirmed."""

    @property
    def whole(self) -> bool:
        """Return whether the run is whole."""
        return self.run.state is RunState.WHOLE


class PeerComparison(Message):
    """A comparison of a peer's memory with the records.

    ``unknown``: ids that only the peer has; ``missing``: ids that only the records have. The first 100 ids of each are
    named, in order.
    """

    kind: str
    unknown: int = 0
    unknown_ids: tuple[str, ...] = ()
    missing: int = 0
    missing_ids: tuple[str, ...] = ()


class CheckSettings(Message):
    """The settings of checks, in seconds and objects."""

    enabled: bool = True
    inverted: bool = True
    """Whether unknown objects are reported too (``enable_inverted_check``)."""
    interval_seconds: int = 43_200
    """From one check to the next (``check_object_interval_seconds``)."""
    grace_seconds: int = 86_400
    """Younger objects are not judged (``check_grace_seconds``)."""
    live_max_age_seconds: int = 3_600
    """How old a copy of the live view may be; older, it counts as unreadable."""
    heavy_objects: int = 250_000
    """From this many objects on, Spark compares (``spark_threshold_objects``)."""


class RepairResult(Message):
    """What a repair did, in objects.

    ``shown``: lost objects that were restored from a version. ``kept``: objects that the last check before the repair
    no longer confirmed, or that have no version to restore.
    """

    found: int = 0
    marked: int = 0
    shown: int = 0
    kept: int = 0

    def plus(self, other: "RepairResult") -> "RepairResult":
        """Return the sum of both."""
        return RepairResult(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


Heartbeat = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class UnknownCheck(NotFound):
    """No check run has this id."""


class UnknownFinding(NotFound):
    """No finding has this number, or it is not open any longer."""


class Compare(Protocol):
    """One way to compare objects with records: in this process, or on Spark."""

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List the vaults, then read the live side, and store each disagreement as a finding; may be repeated."""
        ...
