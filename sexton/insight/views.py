"""The values that status and explanations return; they also travel as JSON. Instants are in ms since 1970."""

from collections import deque
from typing import Literal

from pydantic import Field

from sexton.check.model import CheckCounts
from sexton.kernel.message import Message, Page
from sexton.marks.kept import Event, KeptCounts
from sexton.operators.controls.model import Halt
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import Cap
from sexton.recycle.planning.model import PlanRow

PAUSED = "paused: "
"""How the state of a paused schedule begins, as workers note it; the operator's note follows."""


class KindStatus(Message):
    """Marks of one kind that are not claimed. Each field is a column, in the terminal and in the console.

    ``due`` is exact. ``waiting_is``: how ``waiting`` was counted; about: estimated, by statistics of the database.
    """

    kind: str
    waiting: int = Field(title="marked")
    waiting_is: Literal["exact", "about", "at least"] = "exact"
    due: int
    due_bytes: int
    oldest: int | None = Field(alias="oldest_at")
    next_due: int | None = Field(None, alias="next_due_at")
    """When the first mark is due that is not due yet; None: there is none."""
    due_since: int | None = Field(None, exclude=True)
    note: str = ""


class ShardCounts(Message):
    """One shard of a kind of a running round: its marks, as the plan divided them, and how far it is."""

    due: int
    claimed: int = 0
    finished: bool = False


class KindCounts(Message):
    """One kind of a running round.

    Marks: ``due`` by the plan, ``claimed``, ``removed``. Objects: ``planned``, ``listed`` so far, ``adopted`` from
    earlier rounds, and ``objects`` that are gone. ``estimated``: the plan did not list them; ``guessed``: no prefix of
    the kind was ever listed before. ``held``: due marks that holds blocked when the plan was made; ``kept``: marks that
    finished ranges did not claim.
    """

    kind: str
    due: int = 0
    held: int = 0
    kept: int = 0
    claimed: int = 0
    removed: int = 0
    planned: int = 0
    estimated: bool = False
    guessed: bool = False
    listed: int = 0
    adopted: int = 0
    objects: int = 0
    shards: tuple[ShardCounts, ...] = ()
    """Shards that are deleted beside each other; empty: the kind is not divided."""

    @property
    def expected(self) -> int:
        """Return how many objects will be gone at the end, by what is known now.

        As soon as a mark is claimed, the marks of this round say more about the others than the plan's estimate.
        """
        own = max(self.planned, self.listed)
        if self.estimated and self.claimed:
            unclaimed = max(0, self.due - self.claimed - max(self.held, self.kept))
            own = self.listed + round(unclaimed * self.listed / self.claimed)
        return max(self.objects, self.adopted + own)

    @property
    def is_guess(self) -> bool:
        """Return whether the expected number is a guess still: nothing of the kind was ever listed."""
        return self.guessed and not self.listed


class RoundCounts(Message):
    """How far a running round is, how long it has run (ms), and which marks its finished ranges kept."""

    kinds: tuple[KindCounts, ...] = ()
    elapsed_ms: int = 0
    kept: KeptCounts = Field(default_factory=dict)

    @property
    def objects(self) -> int:
        """Return how many objects are gone."""
        return sum(k.objects for k in self.kinds)

    @property
    def expected(self) -> int:
        """Return how many objects will be gone at the end, by what is known now."""
        return sum(k.expected for k in self.kinds)

    @property
    def estimated(self) -> bool:
        """Return whether the expected number is an estimate."""
        return any(k.estimated for k in self.kinds)

    @property
    def is_guess(self) -> bool:
        """Return whether nothing was listed yet of a kind whose number of objects is a guess."""
        return any(k.is_guess for k in self.kinds)

    @property
    def seconds_left(self) -> float | None:
        """Return the remaining time at the rate so far, None before the first object is gone."""
        left = self.expected - self.objects
        return left * self.elapsed_ms / self.objects / 1000 if self.objects else None


WINDOW_MS = 60_000
"""Long enough for a chunk of marks to be listed, claimed and deleted; short enough to follow a store that slows."""
SHORTEST_MS = 1_000
"""Two samples that are closer to each other say nothing about a rate."""


class RecentRate:
    """The newest samples of one round: how long it had run (ms), and how many objects were gone."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, counts: RoundCounts) -> None:
        """Add a sample; forget those that the window no longer needs."""
        self._samples.append((counts.elapsed_ms, counts.objects))
        while len(self._samples) > 2 and self._samples[1][0] <= counts.elapsed_ms - WINDOW_MS:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """Return objects per second within the window; None: there are too few samples."""
        if not self._samples:
            return None
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return (after - before) * 1000 / (ended - began) if ended - began >= SHORTEST_MS else None

    def seconds_left(self, counts: RoundCounts) -> float | None:
        """Return the remaining time at this rate; None: nothing is known of it, or nothing moves."""
        rate = self.per_second
        return max(0, counts.expected - counts.objects) / rate if rate else None


class Running(Message):
    """A round that has not ended. ``waiting``: why it holds no lease. ``cut_off``: its lease has expired."""

    round: int | None
    since: int = Field(alias="since_at")
    waiting: str | None = None
    wait: str = ""
    waiting_since: int | None = Field(None, alias="waiting_since_at")
    leased: bool = False
    cut_off: bool = False
    progress: RoundCounts = RoundCounts()


class RunningWork(Message):
    """One run that has not ended, with what its rows show.

    ``work``: ``round``, ``check`` or ``purge`` (of a topic); ``name``: its number, or the topic. ``state``: why it does
    not move; empty: it works. ``progress``: of a round; ``check``: of a check.
    """

    work: str
    instance: str
    name: str
    since: int = Field(alias="since_at")
    elapsed_ms: int
    state: str = ""
    progress: RoundCounts = RoundCounts()
    check: CheckCounts | None = None


class Checked(Message):
    """The results of an instance's checks.

    ``lost``: LOST findings that were confirmed and open at the end of the last check. ``whole``: when the last complete
    check began. ``running_since``: when the check began that runs now.
    """

    lost: int = 0
    prefixes: int = 0
    """Live rows that name a prefix: the loss of an object inside one cannot be detected."""
    whole: int | None = Field(None, alias="whole_at")
    running_since: int | None = Field(None, alias="running_since_at")
    last: str | None = None
    """The state in which the last check ended; None: no check has ended."""


class InstanceStatus(Message):
    """One instance on one screen.

    ``next_round``: None while a round runs; at or before ``now`` where a round starts as soon as a slot is free.
    ``claimed``: claimed marks. ``late``: those of them whose prefix waits for its second pass.
    """

    instance: str
    mode: str
    now: int = Field(alias="now_at")
    running: Running | None
    next_round: int | None = Field(alias="next_round_at")
    overdue_since: int | None = Field(None, alias="overdue_since_at")
    """Since when its next round is due, if nothing has begun it for long though nothing hinders it."""
    schedule: str = Field("", exclude=True)
    """The schedule as a worker last saw it in Temporal; JSON does not have it."""
    has_worker: bool = Field(True, exclude=True)
    """Whether a control worker reports to the database; JSON does not have it."""
    has_temporal: bool = Field(True, exclude=True)
    """Whether Temporal answers one of them; JSON does not have it."""
    halt: Halt | None
    failures: int
    last_success: int | None = Field(alias="last_success_at")
    holds: int
    kinds: tuple[KindStatus, ...]
    more_kinds: int = 0
    """At least so many kinds without a retention that ``kinds`` does not list."""
    claimed: int
    late: int
    quarantined: dict[str, int]
    approvals: tuple[PlanRow, ...] = ()
    caps: tuple[Cap, ...] = ()
    protections: int = 0
    """Sync jobs' protections, including finished ones that still block deletions."""
    last: RoundReport | None
    last_ended: int | None = Field(alias="last_ended_at")
    checked: Checked = Checked()
    live_view: str = ""
    """The name of its live view; ``none``: it has none; empty: none is named."""
    shows_live_objects: bool = True
    """Whether its owner shows which objects are live: else nothing looks for them before a deletion, or in a check."""


class Overview(Message):
    """Every instance; ``slots_used`` rounds run, and ``slots`` may run at once."""

    slots_used: int
    slots: int
    instances: tuple[InstanceStatus, ...]


ALL_INSTANCES = "(all)"
"""The instance of what blocks the deletions of every one."""


class Story(Message):
    """The events of one mark or of one live object, in order of time."""

    instance: str
    kind: str = ""
    id: str = Field("", alias="mark")
    events: tuple[Event, ...]


class ListedMark(Message):
    """One mark in a list. ``parent``: KIND/ID. ``due_at``: None where its kind has no retention."""

    instance: str
    kind: str
    mark: str
    state: str
    marked_at: int
    due_at: int | None
    parent: str | None
    vault: str | None
    prefix: str | None
    keys: int
    """How many keys it names."""
    bytes: int
    quarantined: str | None
    """The reason for which it is quarantined."""
    last_error: str | None


class MarkPage(Page[ListedMark]):
    """Some marks of a list."""
