"""What is shown: plans in a list, instances on one page, stories. Values; instants in ms since 1970."""

from sexton.kernel.message import Message
from sexton.operators.controls.model import ControlKind, Halt
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import Cap
from sexton.recycle.planning.model import PlanRow


class KindStatus(Message):
    """Marks of one kind that are not claimed."""

    kind: str
    waiting: int
    due: int
    due_bytes: int
    oldest: int | None
    note: str = ""


class Running(Message):
    """A round that has not ended. ``waiting`` says why it holds no lease; ``cut_off``: its lease has run out."""

    round: int | None
    since: int
    waiting: str | None = None
    waiting_since: int | None = None
    leased: bool = False
    cut_off: bool = False


class Checked(Message):
    """What checks say of an instance; instants are ms since 1970.

    ``lost``: confirmed and open at the end of the last one; ``whole``: when the last one began that saw everything.
    """

    lost: int = 0
    whole: int | None = None
    running_since: int | None = None
    last: str | None = None
    """How the last one ended; None: there was none."""


class InstanceStatus(Message):
    """One instance at a glance; instants in ms since 1970.

    ``next_round`` is None while a round runs; it is not after ``now`` where one starts as soon as a slot is free.
    """

    instance: str
    mode: str
    now: int
    running: Running | None
    next_round: int | None
    halt: Halt | None
    failures: int
    last_success: int | None
    holds: int
    kinds: tuple[KindStatus, ...]
    claimed: int
    late: int
    quarantined: dict[str, int]
    approvals: tuple[PlanRow, ...] = ()
    caps: tuple[Cap, ...] = ()
    protections: int = 0
    """Sync jobs' protections, finished ones that still keep among them."""
    last: RoundReport | None
    last_ended: int | None
    checked: Checked = Checked()


class Overview(Message):
    """Every instance, and how many rounds run of how many that may run at once."""

    slots_used: int
    slots: int
    instances: tuple[InstanceStatus, ...]


class Event(Message):
    """One thing that is or was; ``at`` in ms since 1970, 0 for what holds now. ``event`` is its name for programs."""

    at: int = 0
    event: str
    text: str


class Story(Message):
    """What is known of one mark (or of one live object), in order of time."""

    instance: str
    kind: str = ""
    id: str = ""
    events: tuple[Event, ...]


NOW = frozenset({"hold", "protection", "awaits_approval"} | {f"halted_{kind}" for kind in ControlKind})
"""Events that hold now; their ``at`` says since when."""
