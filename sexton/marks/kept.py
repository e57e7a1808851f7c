"""Define why a mark is not deleted: the reason as an enum, its subject as data, and the texts that people read. Pure.

No code parses these texts: metrics, plans and ways out are chosen by ``KeepReason``.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer

from sexton.kernel.message import Message
from sexton.storage.port import NOT_LISTED


class KeepReason(StrEnum):
    """Why a mark is not deleted. Also the label of the metric.

    Each has the text that people read, and what an operator can do about it (empty: nothing but wait). Both name parts
    of the answer, and the instance, in braces.
    """

    text: str
    way_out: str

    def __new__(cls, value: str, text: str, way_out: str = "") -> "KeepReason":
        """Return the reason that is stored and labelled as ``value``."""
        reason = str.__new__(cls, value)
        reason._value_, reason.text, reason.way_out = value, text, way_out
        return reason

    HOLD = "hold", "hold {subject}", "sexton hold release {subject}"
    """An operator's hold. Subject: its number; detail: why it is not known whether it blocks the mark."""
    PROTECTION = (
        "protection",
        "protection {subject}",
        "deleted when its job has finished; see: sexton protection list {instance}",
    )
    """A sync job still copies a file. Subject: the job."""
    PROTECTION_UNREADABLE = (
        "protection_unreadable",
        "unreadable protection {subject}: {detail}",
        "register it again after: sexton protection release JOB --reason TEXT",
    )
    """A protection that cannot be read may cover any file. Subject: the job."""
    COMMIT = "commit", "commit {subject} under way", "deleted when the commit has failed, or its time is over"
    """A commit under way names a file. Subject: the commit's id."""
    LIVE = "live", "live", "deleted when its owner no longer shows it; its other files: mark each on its own"
    """The owner lists the mark or one of its files as live. Subject and detail: of the first, mark and rows."""
    IN_USE = "in_use", "in use by its owner", "deleted when its owner no longer uses it"
    """The owner answered a fence that it uses the mark."""
    VAULT = "vault", "vault {subject}: {detail}", "sexton vault list {instance}"
    """The vault has a fault. Subject: the vault; detail: the fault."""
    VAULT_WHITELIST = "vault_whitelist", "vault {subject}: not on the vault whitelist", "sexton lists show vaults"
    """Other vaults are on the vault whitelist. Subject: the vault."""
    OWNER_SILENT = "owner_silent", "owner: {detail}", "with the settings of a worker: sexton doctor"
    """The owner did not answer. Detail: why."""
    OWNER_BUSY = "owner_busy", "owner's transaction", "deleted after the owner's transaction ends"
    """An open transaction of the owner decides about the mark now."""
    APPROVAL = "approval", "approval of plan {subject}", "sexton apply {subject}"
    """A plan awaits approval. Subject: the plan's number."""
    LIMIT = (
        "limit",
        "limit of 24 hours",
        "planned again by the next rounds; or now: sexton plan {instance}, sexton apply PLAN",
    )
    """The limit of 24 hours is reached; the rest needs a plan that an operator approves."""
    REPLICA = (
        "replica",
        "replica on {subject}",
        "deleted when every replica has these versions; see: sexton replica list",
    )
    """A replica of the tablet may still need these versions. Subject: its backend."""
    WAITS = "waits", "waits for {subject}", "deleted in a later round"
    """Another mark must be deleted first. Subject: which."""
    PREPARED = "prepared", "load of {subject}", "deleted after the load's time is over; see: sexton why {subject}"
    """A load may still write and commit files below the mark's prefix. Subject: the prepared mark."""
    QUARANTINED = "quarantined", "quarantined: {subject}", "sexton quarantine list {instance}"
    """The mark is quarantined. Subject: the quarantine's reason."""
    UNKNOWN_KIND = (
        "unknown_kind",
        "kind {subject} has no retention",
        "correct the kind of its marks, or set kinds.{kind}.retention_seconds",
    )
    """No retention is set for the kind. Subject: the kind."""
    OTHER = "other", "a reason that this version of Sexton does not know: {subject}"
    """A reason that a newer version stored, and this version does not know."""

    @classmethod
    def _missing_(cls, _value: object) -> "KeepReason":
        return cls.OTHER


FAULTS = (KeepReason.VAULT, KeepReason.OWNER_SILENT, KeepReason.PROTECTION_UNREADABLE)
"""Reasons that an operator must investigate: a vault is not verified, an owner or a protection not readable."""

PROTECTED = (KeepReason.PROTECTION, KeepReason.PROTECTION_UNREADABLE)
"""Reasons that come from sync jobs."""

LISTED_AS_OF_NOW = (KeepReason.APPROVAL, KeepReason.QUARANTINED)
"""Reasons that have rows of their own in the list of blockers, which do not need a round."""


class Kept(NamedTuple):
    """Why one mark is kept. ``subject`` and ``detail`` are shown to people and never parsed."""

    reason: KeepReason
    subject: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return describe(self)

    @property
    def key(self) -> str:
        """What stays the same while the reason lasts: its text without an error's own words."""
        return describe(self if self.reason is KeepReason.VAULT else self._replace(detail=""))


LIVE = Kept(KeepReason.LIVE)
OWNER_BUSY = Kept(KeepReason.OWNER_BUSY)
IN_USE = Kept(KeepReason.IN_USE)
BY_LIMIT = Kept(KeepReason.LIMIT)
WAITS_FOR_CHILD = Kept(KeepReason.WAITS, "a child mark")
"""A child that would be claimed with the mark cannot be claimed yet."""


NAMED_LIVE = 5
"""Marks that a report names of those that live rows keep; it counts the others."""


def by_live(mark: object, rows: str) -> Kept:
    """Return the answer for a mark that is live. ``rows``: live rows that it touches; empty: they are not named."""
    return Kept(KeepReason.LIVE, str(mark), rows) if rows else LIVE


def name_first(counts: Mapping[Kept, int]) -> dict[Kept, int]:
    """Return the counts with the first live marks by name, and all others in one count."""
    live = sorted(answer for answer in counts if answer.reason is KeepReason.LIVE and answer != LIVE)
    unnamed = live[NAMED_LIVE:]
    shown_counts = {answer: marks for answer, marks in counts.items() if answer not in unnamed}
    if unnamed:
        shown_counts[LIVE] = shown_counts.get(LIVE, 0) + sum(counts[answer] for answer in unnamed)
    return shown_counts


def by_hold(hold: int, detail: str = "") -> Kept:
    """Return the answer for an operator's hold. ``detail``: why it may block the mark; empty: it does."""
    return Kept(KeepReason.HOLD, str(hold), detail)


def by_load(prepared_mark: str) -> Kept:
    """Return the answer for a load that has not ended, by the id of its prepared mark."""
    return Kept(KeepReason.PREPARED, prepared_mark)


def by_plan(plan: int) -> Kept:
    """Return the answer for a plan that awaits approval."""
    return Kept(KeepReason.APPROVAL, str(plan))


def by_vault(vault: str, fault: str) -> Kept:
    """Return the answer for a vault that a round leaves alone, because of the whitelist or a fault."""
    if fault == NOT_LISTED:
        return Kept(KeepReason.VAULT_WHITELIST, vault)
    return Kept(KeepReason.VAULT, vault, fault)


def by_owner_silence(error: object) -> Kept:
    """Return the answer for an owner that did not answer."""
    return Kept(KeepReason.OWNER_SILENT, detail=str(error))


def describe(kept: Kept) -> str:
    """Return the answer as people read it, e.g. ``hold 17``."""
    if kept.reason is KeepReason.LIVE and kept.detail:
        return f"live: {kept.subject} ({kept.detail})"
    if kept.reason is KeepReason.HOLD and kept.detail:
        return f"hold {kept.subject} ({kept.detail})"
    return kept.reason.text.format(subject=kept.subject, detail=kept.detail)


def way_out(kept: Kept, instance: str) -> str:
    """Return what an operator can do about it; empty where nothing can be done but wait."""
    if kept.reason is KeepReason.VAULT:
        return vault_way_out(kept.detail, instance)
    kind = "NAME" if kept.subject.startswith("(") else kept.subject  # a subject in brackets counts further kinds
    return kept.reason.way_out.format(subject=kept.subject, kind=kind, instance=instance)


def vault_way_out(states: str, instance: str) -> str:
    """Return what shows the faults of vaults: where a store throttles, its marker is read all the same."""
    return "sexton pace" if states == "THROTTLED" else KeepReason.VAULT.way_out.format(instance=instance)


class KeptMarks(Message):
    """How often one answer was given, as it travels."""

    reason: KeepReason
    subject: str = ""
    detail: str = ""
    marks: int


def _to_wire(counts: Mapping[Kept, int]) -> list[KeptMarks]:
    return [KeptMarks(**answer._asdict(), marks=marks) for answer, marks in sorted(counts.items())]


def _from_wire(value: Any) -> Any:
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        return value
    answers = [KeptMarks.model_validate(item) for item in value]
    return {Kept(a.reason, a.subject, a.detail): a.marks for a in answers}


KeptCounts = Annotated[dict[Kept, int], BeforeValidator(_from_wire), PlainSerializer(_to_wire)]
"""How many marks were kept, by answer; in JSON a list of ``KeptMarks``."""


def count_by_reason(counts: Mapping[Kept, int]) -> dict[KeepReason, int]:
    """Return the marks kept by each reason."""
    totals: dict[KeepReason, int] = {}
    for answer, marks in counts.items():
        totals[answer.reason] = totals.get(answer.reason, 0) + marks
    return totals


def count_faults(counts: Mapping[Kept, int]) -> int:
    """Return the marks kept for a reason that an operator must look into."""
    return sum(marks for answer, marks in counts.items() if answer.reason in FAULTS)


class Severity(IntEnum):
    """How bad a problem is. The worst is listed first, in every list of problems and of blockers."""

    LOST = 1
    """Something that is needed was deleted, or is missing. It blocks no deletion."""
    FAULT = 2
    """A vault, an owner, a log or a clock cannot be used: what depends on it is kept."""
    FAILED = 3
    """A round failed, and is tried again."""
    QUARANTINED = 4
    OVERDUE = 5
    """Nothing begins a round, or continues it."""
    HALTED = 6
    """Operators ordered that nothing is deleted: a stop, a list, a window or a pause."""
    APPROVAL = 7
    OBSERVES = 8
    OTHER = 9
    """What ends without an operator, or is as operators and owners want it, such as holds and protections."""

    @property
    def is_ordered(self) -> bool:
        """Return whether operators want it so: then nothing is wrong."""
        return self in (Severity.HALTED, Severity.OBSERVES, Severity.OTHER)


class Wait(NamedTuple):
    """A wait of a run: how people read it, the signal that ends it (empty: none does), and how bad it is."""

    text: str = "waiting"
    signal: str = ""
    severity: Severity = Severity.OTHER


WAITS = {
    "PAUSED": Wait("paused", "resume", Severity.HALTED),
    "BACKING_OFF": Wait("backing off", "retry", Severity.FAILED),
}
"""What a run that waits for a signal does, as its row, its query ``progress`` and the Temporal UI show it."""


class Blocker(Message):
    """Something that blocks deletions now. ``count``: how many marks a round counted; instants in ms since 1970."""

    severity: Severity = Field(Severity.OTHER, exclude=True)
    """Its place in the list; JSON does not have it."""
    kept: Kept | None = Field(None, exclude=True)
    """The answer about marks for which it stands, by which lists tell it from others; JSON does not have it."""
    instance: str
    held_by: str
    what: str
    since: int | None = Field(None, alias="since_at")
    until: int | None = Field(None, alias="until_at")
    by: str = ""
    why: str = ""
    way_out: str = ""
    count: int | None = None
    key: str = Field("", exclude=True)
    """What stays the same of ``held_by`` while the problem lasts; empty: all of it."""

    def __str__(self) -> str:
        why = f" ({self.why.splitlines()[0]})" if self.why else ""
        return f"{self.instance}: {self.held_by}: {self.what}{why}"


class Event(Message):
    """One event or present condition of a mark. ``at``: 0 where it has no instant; ``event``: its name for programs."""

    at: int = Field(0, alias="happened_at")
    event: str
    text: str
    blocks: bool = Field(False, exclude=True)
    """Whether it has blocked deletion since ``at``, and still does; JSON does not have it."""
