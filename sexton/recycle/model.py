"""What a recycle round says and is told: workflow and activity messages, plans and reports.

Messages ignore unknown fields and bound nothing: old histories are read again on replay. Instants are milliseconds
since 1970 on the database's clock.
"""

from pydantic import Field

from sexton.lease.model import Lease
from sexton.message import Message

HELD_BY_VAULT = "vault "
HELD_BY_OWNER = "owner: "
"""How a holder's name begins where a vault's fault or an owner's silence keeps marks."""


class Policy(Message):
    """What is due when; travels with the plan, so a replay sees the policy of its day."""

    version: str
    retention_seconds: dict[str, int]
    upload_grace_seconds: int


class KindPlan(Message):
    """One kind of a plan: marks due at the cutoff, and what is known of their size."""

    kind: str
    cutoff: int
    marks: int
    keys: int = 0
    prefixes: int = 0
    bytes: int = 0
    oldest: int | None = None


class Plan(Message):
    """Exactly what one round may delete. ``id`` 0 means not stored yet."""

    id: int = 0
    instance: str
    created_at: int
    policy: Policy
    kinds: tuple[KindPlan, ...] = ()
    held: dict[str, int] = Field(default_factory=dict)
    claimed: int = 0

    @property
    def marks(self) -> int:
        """Marks the plan would claim, without those that earlier rounds claimed."""
        return sum(k.marks for k in self.kinds)


class RecycleRequest(Message):
    """Start one round. Without ``plan`` the round makes its own; an instance that only observes stops after it."""

    instance: str
    plan: int | None = None
    requested_by: str = ""


class Opened(Message):
    """The round as it stands after opening: its row, its lease, whether it may delete, the policy of its day."""

    round: int
    lease: Lease
    may_delete: bool
    policy: Policy
    vaults: tuple[str, ...] = ()


class Cursor(Message):
    """A place in the order in which marks fall due: everything up to and including it was looked at."""

    ages_from: int = 0
    id: str = ""


class RangeOrder(Message):
    """Work on one range of one kind: everything due after the cursor, up to about ``RANGE_OBJECTS`` objects."""

    round: int
    number: int
    lease: Lease
    kind: str
    cutoff: int
    limit: int
    after: Cursor = Cursor()
    upload_grace_seconds: int


class RangeReceipt(Message):
    """What one range did. ``held`` counts marks by what keeps them."""

    scanned: int = 0
    claimed: int = 0
    last: Cursor = Cursor()
    finished: bool = False
    held: dict[str, int] = Field(default_factory=dict)
    quarantined: int = 0


class AdoptOrder(Message):
    """Finish what earlier rounds claimed."""

    round: int
    lease: Lease
    upload_grace_seconds: int


class Counts(Message):
    """What happened to objects and, for ``claimed`` and ``removed``, to marks.

    ``bytes_estimated`` is what owners said where nothing was measured; hidden objects are behind delete markers.
    """

    claimed: int = 0
    removed: int = 0
    deleted: int = 0
    absent: int = 0
    hidden: int = 0
    failed: int = 0
    bytes_freed: int = 0
    bytes_estimated: int = 0
    bytes_hidden: int = 0


class Tally(Counts):
    """Counts of one kind in one vault."""

    kind: str
    vault: str


class CloseOrder(Message):
    """End a round and store its report."""

    opened: Opened
    plan: int | None
    outcome: str
    error: str = ""
    scanned: int = 0
    due: int = 0
    held: dict[str, int] = Field(default_factory=dict)
    quarantined: int = 0


class RoundReport(Counts):
    """One round, told honestly; stored with it."""

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
    held: dict[str, int] = Field(default_factory=dict)
    faults: int = 0
    """Marks kept because a vault could not be proved or an owner could not be asked: somebody must look."""
    tallies: tuple[Tally, ...] = ()
