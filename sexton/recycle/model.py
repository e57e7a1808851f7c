"""The report of a round: how it ended, and its counts by kind and vault; what planning and rounds refuse.

Instants are in ms since 1970.
"""

from enum import StrEnum

from pydantic import Field

from sexton.kernel.errors import BadInput, Conflict, NotFound, SextonError
from sexton.kernel.message import Message
from sexton.marks.kept import KeptCounts

JOB = "recycle"
"""The job of the lease under which a round works."""
DAY_MS = 86_400_000
"""The window in which limits count objects: 24 hours in milliseconds."""
SUCCEEDED, PARTIAL, FAILED, CANCELLED, STOPPED = "SUCCEEDED", "PARTIAL", "FAILED", "CANCELLED", "STOPPED"
"""How a round ended, in its report: at its end; at its end, but a vault or an owner was at fault; with an error; by an
operator's cancel; by a stop, list or window."""

NO_FAULT = ("normal", "NOT_LISTED")
"""The states of a vault in a report that are no fault."""


class RoundState(StrEnum):
    """The state of a round's row, by which rows are found. Who reads a round sees its report's, which is more exact."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """It did not run to its end: an error, a cancel or a halt."""


class Counts(Message):
    """Counts of objects and, for ``claimed`` and ``removed``, of marks.

    ``listed``: objects that the round found, page by page, also those of marks that it then kept. ``adopted``: objects
    that earlier rounds had listed and claimed, and left for this one to delete.
    ``bytes_estimated``: the owners' numbers, where no size was measured. ``size_unknown``: deleted objects of which
    neither is known. ``hidden``: objects behind delete markers.
    """

    listed: int = 0
    adopted: int = 0
    claimed: int = 0
    removed: int = 0
    deleted: int = 0
    absent: int = 0
    hidden: int = 0
    failed: int = 0
    bytes_freed: int = 0
    bytes_estimated: int = 0
    size_unknown: int = 0
    bytes_hidden: int = 0


class KindVaultCounts(Counts):
    """Counts of one kind in one vault."""

    kind: str
    vault: str


class KindReport(Message):
    """One kind of a round: what was due by its plan, what was deleted or kept, the time it took, and its error."""

    kind: str
    due: int = 0
    due_bytes: int = 0
    scanned: int = 0
    claimed: int = 0
    removed: int = 0
    deleted: int = 0
    hidden: int = 0
    bytes: int = 0
    size_unknown: int = 0
    elapsed_ms: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    error: str = ""
    note: str = ""
    """Further information for an operator, for example that no Spark worker took the kind."""


class RoundReport(Counts):
    """The result of one round, stored with it. ``leases`` above 1: it freed or lost its lease, and took it again."""

    round: int
    instance: str
    plan: int | None = None
    state: str = "SUCCEEDED"
    observed: bool = False
    error: str = ""
    scanned: int = 0
    due: int = 0
    quarantined: int = 0
    waiting: int = 0
    kept: KeptCounts = Field(default_factory=dict)
    protected_bytes: int = 0
    faults: int = 0
    """Marks kept because a vault could not be verified or an owner did not answer: an operator must act."""
    tallies: tuple[KindVaultCounts, ...] = ()
    kinds: tuple[KindReport, ...] = ()
    vaults: dict[str, str] = Field(default_factory=dict)
    """Each vault of the instance: ``normal``, or why the round excluded it."""
    fault_details: dict[str, str] = Field(default_factory=dict)
    """Vault that the round excluded → what a worker met there: the answer of its store, for people."""
    leases: int = 1
    lost_leases: int = 0
    adoption_ms: int = 0
    """The time for marks that earlier rounds had claimed; it is in none of the kinds' times."""
    adoption_note: str = ""
    """Where many objects of these were deleted, as the note of a kind."""
    started_at: int | None = None
    ended_at: int | None = None

    def vault_fault(self, vault: str) -> str:
        """Return the fault that the round met in a vault, with the store's answer; empty: it met none."""
        state = self.vaults.get(vault, "")
        return "" if state in NO_FAULT else ": ".join(filter(None, (state, self.fault_details.get(vault))))


class PlanRefused(Conflict):
    """The plan does not exist, was applied, or belongs to another instance."""


class UnknownPlan(NotFound, PlanRefused):
    """No plan has this number, or none of that instance: a token of another one does not learn which."""

    def __init__(self, plan: int) -> None:
        super().__init__(f"there is no plan {plan}; see: sexton plan list")


class UnknownRound(NotFound, BadInput):
    """No round has this number."""


class NotQuarantined(Conflict, BadInput):
    """The mark is neither quarantined nor waits for its second pass, so it is not retried or discarded."""


class Unconfirmed(Conflict):
    """The marks name objects that were overwritten since; whether the new objects are deleted needs a confirmation."""


class OrderRefused(SextonError):
    """The rows of the database do not allow what an order over Temporal says."""


class RoundEnded(Conflict):
    """The round of this run has ended and was counted; it does not begin again."""
