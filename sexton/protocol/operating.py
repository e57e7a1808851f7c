"""What operators do: holds, marks, quarantine, rounds, plans, instances, lists and caps. Instants: ms since 1970.

Lists come in pages: ``?after=`` of a request is ``next`` of the page before. It is empty where no page follows.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sexton.insight.views import MarkPage, RoundCounts
from sexton.kernel.message import Message
from sexton.operators.call_log.model import CallRecord
from sexton.operators.controls.model import Control, ListName
from sexton.operators.holds.model import Hold
from sexton.protocol.body import PRINTABLE, Body, Reason, Seconds
from sexton.recycle.pacing.model import PlaceFigures
from sexton.recycle.pipeline.quarantined import Quarantined
from sexton.recycle.planning.model import PlanRow
from sexton.recycle.rounds.row import RoundRow
from sexton.storage.model import Probe

__all__ = [
    "MAX_PAGE",
    "CallPage",
    "ControlList",
    "Discarding",
    "Hold",
    "HoldPage",
    "InstanceList",
    "ListChange",
    "ListEntry",
    "ListName",
    "MarkName",
    "MarkPage",
    "MarkQuery",
    "NewCap",
    "NewHold",
    "Paces",
    "PlacedHold",
    "PlanPage",
    "PlanRow",
    "Probe",
    "Quarantined",
    "Rejection",
    "Retried",
    "RetryOrder",
    "RoundDetails",
    "RoundPage",
    "ShownInstance",
    "ShownVault",
    "Signal",
    "Signalled",
    "TrustOrder",
    "Trusted",
    "VaultList",
    "Why",
]

MAX_PAGE = 1_000
Signal = Literal["cancel", "pause", "resume", "retry"]
Text = Annotated[str, Field(min_length=1, max_length=2_048, pattern=PRINTABLE)]
Remark = Annotated[str, Field(max_length=500, pattern=PRINTABLE, description="shown in the log of calls")]
MarkName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f/]{1,64}/[^\x00-\x1f\x7f]{1,1024}$", description="KIND/ID")]


class Why(Body):
    """Why an operator does it."""

    reason: Remark = ""


class NewHold(Body):
    """A hold to place. A table is the mark of kind ``table`` with its id."""

    scope: Literal["instance", "mark", "prefix"]
    mark_kind: Text | None = None
    mark_id: Text | None = None
    vault: Text | None = None
    prefix: Text | None = None
    seconds: Seconds
    reason: Reason

    @model_validator(mode="after")
    def _names_what_it_holds(self) -> "NewHold":
        given = {name for name in ("mark_kind", "mark_id", "vault", "prefix") if getattr(self, name) is not None}
        required = {"instance": set(), "mark": {"mark_kind", "mark_id"}, "prefix": {"vault", "prefix"}}[self.scope]
        if given != required:
            raise ValueError(f"a hold of scope {self.scope} has {' and '.join(sorted(required)) or 'no further field'}")
        return self


class PlacedHold(Message):
    """A hold that was placed. ``too_late``: how many of its marks are claimed already, whose deletion goes on.

    ``blocks_now``: how many marks it blocks now, without those whose files only their owner names; ``matches_now``: how
    many of them match it, and are not only blocked because they have too many ancestors. None: counting takes too long.
    ``may_block``: marks whose prefix covers the one of the hold, which it blocks only if files are found under it;
    None as above.
    """

    hold: Hold
    too_late: int
    blocks_now: int | None
    matches_now: int | None = None
    may_block: int | None = None


class HoldPage(Message):
    """Holds, the newest first."""

    holds: tuple[Hold, ...]
    next: str = ""


class MarkQuery(Body):
    """Which marks are listed. A parent lists its marks in every state."""

    kind: Annotated[str, Field(max_length=64)] = ""
    state: Literal["WAITING", "CLAIMED", "QUARANTINED", "FENCED"] | None = None
    parent: MarkName | None = None
    plan: Annotated[int | None, Field(ge=1, le=2**63 - 1)] = None
    """Only marks of this plan that are due now."""
    under: Annotated[str, Field(max_length=1_024)] = ""
    """Only marks whose prefix, or one of whose keys, begins with this, or whose prefix covers it."""
    after: Annotated[str, Field(max_length=2_048, description="`next` of the page before")] = ""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100

    @model_validator(mode="after")
    def _has_parent_or_state(self) -> "MarkQuery":
        if self.parent and self.state:
            raise ValueError("a parent lists its marks in every state; leave the state out")
        if self.plan and (self.parent or self.state):
            raise ValueError("a plan lists its marks that wait; leave the parent and the state out")
        return self


class RetryOrder(Body):
    """Which quarantined marks are tried again: one of the three."""

    mark: MarkName | None = None
    reason: Annotated[str, Field(max_length=64)] | None = None
    everything: bool = False
    """All of the instance, except those with reason CHANGED."""
    deletes_current: bool = False
    """Confirms that marks with reason CHANGED delete the objects that exist now, which were written after the mark."""

    @model_validator(mode="after")
    def _names_one(self) -> "RetryOrder":
        if (self.mark is not None) + (self.reason is not None) + self.everything != 1:
            raise ValueError("name one mark, or a reason, or everything; exactly one of them")
        return self


class Retried(Message):
    """How many marks the next round tries again."""

    marks: int


class Discarding(Body):
    """A mark to give up, and why. What is left of its files stays."""

    mark: MarkName
    reason: Reason


class RoundPage(Message):
    """Rounds, the newest first."""

    rounds: tuple[RoundRow, ...]
    next: str = ""


class RoundDetails(Message):
    """One round. ``progress``: how far it is; None: it has a report.

    ``worked_at``: when a worker last worked on it (ms since 1970); None: none does, because it waits or has ended.
    """

    round: RoundRow
    progress: RoundCounts | None = None
    worked_at: int | None = None


class Signalled(Message):
    """A signal was sent to the running round. ``workers``: how many can deliver it; 0: none is known."""

    instance: str
    signal: Signal
    workers: int


class PlanPage(Message):
    """Plans, the newest first. The first page also has every older one that awaits approval."""

    plans: tuple[PlanRow, ...]
    next: str = ""


class Rejection(Body):
    """Why a plan is rejected."""

    reason: Reason


class ShownInstance(Message):
    """An instance."""

    instance: str
    mode: str
    owner: str
    live_view: str
    created_at: int
    enabled_at: int | None


class InstanceList(Message):
    """The instances that the token covers, by name."""

    instances: tuple[ShownInstance, ...]


class ShownVault(Message):
    """A vault. ``fault``: why it could not be proved just now; empty: it was; None: that was not asked."""

    vault: str
    kind: str
    place: str
    endpoint: str
    versions: str
    conditional: bool
    keys_per_second: int | None
    """The cap of its deletions; None: it has none."""
    fault: str | None = None


class TrustOrder(Body):
    """Why this database may delete in a vault in which a newer copy of it has deleted."""

    reason: Reason


class Trusted(Message):
    """A vault whose marker names ``round`` now, the newest round of this database."""

    instance: str
    vault: str
    round: int


class VaultList(Message):
    """The vaults of an instance, by name."""

    vaults: tuple[ShownVault, ...]


class NewCap(Body):
    """An upper bound of deletions in a vault, over all workers."""

    keys_per_second: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    reason: Remark = ""


class Paces(Message):
    """How fast each place is deleted from."""

    places: tuple[PlaceFigures, ...]


class ListEntry(Body):
    """An entry of a list: an instance, ``VAULT`` or ``INSTANCE/VAULT``, or a window."""

    name: Text
    reason: Remark = ""


class ListChange(Message):
    """Whether an entry is on a list now."""

    list: ListName
    name: str
    listed: bool


class ControlList(Message):
    """Stops and entries of lists, those of the settings too."""

    controls: tuple[Control, ...]


class CallPage(Message):
    """Calls, the newest first."""

    calls: tuple[CallRecord, ...]
    next: str = ""
