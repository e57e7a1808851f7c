"""Define why a mark is not deleted: the reason as an enum, its subject as data, and the texts that people read. Pure.

No code parses these texts: metrics, plans and ways out are chosen by ``KeepReason``.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer

from sexton.kernel.message import Message
from sexton.storage.port import NOT_LISTED


class KeepReason(StrEnum):
    """Why a mark is not deleted. Also the label of the metric and the key of the way out."""

    HOLD = "hold"
    """An operator's hold. Subject: its number; detail: why it is not known whether it blocks the mark."""
    PROTECTION = "protection"
    """A sync job still copies a file. Subject: the job."""
    PROTECTION_UNREADABLE = "protection_unreadable"
    """A protection that cannot be read may cover any file. Subject: the job."""
    LIVE = "live"
    """The owner lists the mark or one of its files as live. Subject and detail: of the first, mark and rows."""
    IN_USE = "in_use"
    """The owner answered a fence that it uses the mark."""
    VAULT = "vault"
    """The vault has a fault. Subject: the vault; detail: the fault."""
    VAULT_WHITELIST = "vault_whitelist"
    """Other vaults are on the vault whitelist. Subject: the vault."""
    OWNER_SILENT = "owner_silent"
    """The owner did not answer. Detail: why."""
    OWNER_BUSY = "owner_busy"
    """An open transaction of the owner decides about the mark now."""
    APPROVAL = "approval"
    """A plan awaits approval. Subject: the plan's number."""
    LIMIT = "limit"
    """The limit of 24 hours is reached; the rest needs a plan that an operator approves."""
    REPLICA = "replica"
    """A replica of the tablet may still need these versions. Subject: its backend."""
    WAITS = "waits"
    """Another mark must be deleted first. Subject: which."""
    PREPARED = "prepared"
    """A load may still write and commit files below the mark's prefix. Subject: the prepared mark."""
    QUARANTINED = "quarantined"
    """The mark is quarantined. Subject: the quarantine's reason."""
    UNKNOWN_KIND = "unknown_kind"
    """No retention is set for the kind. Subject: the kind."""
    OTHER = "other"
    """A reason that a newer version stored, and this version does not know."""

    @classmethod
    def _missing_(cls, _value: object) -> "KeepReason":
        return cls.OTHER


FAULTS = (KeepReason.VAULT, KeepReason.OWNER_SILENT, KeepReason.PROTECTION_UNREADABLE)
"""Reasons that an operator must investigate: a vault is not verified, an owner or a protection not readable."""

PROTECTED = (KeepReason.PROTECTION, KeepReason.PROTECTION_UNREADABLE)
"""Reasons that come from sync jobs."""


class Kept(NamedTuple):
    """Why one mark is kept. ``subject`` and ``detail`` are shown to people and never parsed."""

    reason: KeepReason
    subject: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return describe(self)


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


_TEXTS = {
    KeepReason.HOLD: "hold {subject}",
    KeepReason.PROTECTION: "protection {subject}",
    KeepReason.PROTECTION_UNREADABLE: "unreadable protection {subject}: {detail}",
    KeepReason.LIVE: "live",
    KeepReason.IN_USE: "in use by its owner",
    KeepReason.VAULT: "vault {subject}: {detail}",
    KeepReason.VAULT_WHITELIST: "vault {subject}: not on the vault whitelist",
    KeepReason.OWNER_SILENT: "owner: {detail}",
    KeepReason.OWNER_BUSY: "owner's transaction",
    KeepReason.APPROVAL: "approval of plan {subject}",
    KeepReason.LIMIT: "limit of 24 hours",
    KeepReason.REPLICA: "replica on {subject}",
    KeepReason.WAITS: "waits for {subject}",
    KeepReason.PREPARED: "load of {subject}",
    KeepReason.QUARANTINED: "quarantined: {subject}",
    KeepReason.UNKNOWN_KIND: "kind {subject} has no retention",
    KeepReason.OTHER: "a reason that this version of Sexton does not know: {subject}",
}


def describe(kept: Kept) -> str:
    """Return the answer as people read it, e.g. ``hold 17``."""
    if kept.reason is KeepReason.LIVE and kept.detail:
        return f"live: {kept.subject} ({kept.detail})"
    if kept.reason is KeepReason.HOLD and kept.detail:
        return f"hold {kept.subject} ({kept.detail})"
    return _TEXTS[kept.reason].format(subject=kept.subject, detail=kept.detail)


def way_out(kept: Kept, instance: str) -> str:
    """Return what an operator can do about it; empty where nothing can be done but wait."""
    kind = "NAME" if kept.subject.startswith("(") else kept.subject  # a subject in brackets counts further kinds
    ways = {
        KeepReason.HOLD: f"sexton hold release {kept.subject}",
        KeepReason.VAULT_WHITELIST: "sexton lists show vaults",
        KeepReason.VAULT: vault_way_out(kept.detail, instance),
        KeepReason.QUARANTINED: f"sexton quarantine list {instance}",
        KeepReason.OWNER_BUSY: "deleted after the owner's transaction ends",
        KeepReason.OWNER_SILENT: "with the settings of a worker: sexton doctor",
        KeepReason.UNKNOWN_KIND: f"correct the kind of its marks, or set kinds.{kind}.retention_seconds",
        KeepReason.APPROVAL: f"sexton apply {kept.subject}",
        KeepReason.LIMIT: f"planned again by the next rounds; or now: sexton plan {instance}, sexton apply PLAN",
        KeepReason.WAITS: "deleted in a later round",
        KeepReason.PREPARED: f"deleted after the load's time is over; see: sexton why {kept.subject}",
        KeepReason.REPLICA: "deleted when every replica has these versions; see: sexton replica list",
        KeepReason.PROTECTION_UNREADABLE: "register it again after: sexton protection release JOB --reason TEXT",
        KeepReason.PROTECTION: f"deleted when its job has finished; see: sexton protection list {instance}",
        KeepReason.LIVE: "deleted when its owner no longer shows it; its other files: mark each on its own",
        KeepReason.IN_USE: "deleted when its owner no longer uses it",
    }
    return ways.get(kept.reason, "")


def vault_way_out(states: str, instance: str) -> str:
    """Return the command that shows the faults of vaults; the marker of a throttled one answers and shows none."""
    return "sexton pace" if states == "THROTTLED" else f"sexton vault list {instance}"


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


class Blocker(Message):
    """Something that blocks deletions now. ``count``: how many marks a round counted; instants in ms since 1970."""

    instance: str
    held_by: str
    what: str
    since: int | None = Field(None, alias="since_at")
    until: int | None = Field(None, alias="until_at")
    by: str = ""
    why: str = ""
    way_out: str = ""
    count: int | None = None


class Event(Message):
    """One event or present condition of a mark. ``at``: 0 where it has no instant; ``event``: its name for programs."""

    at: int = Field(0, alias="happened_at")
    event: str
    text: str
