"""What a story is made of, and by whose word it is told."""

from typing import TYPE_CHECKING, NamedTuple

from sexton.control.model import Kind
from sexton.control.store import ControlStore
from sexton.message import Message
from sexton.owner.port import Owner
from sexton.recycle.model import Policy
from sexton.recycle.turns import TurnStore

if TYPE_CHECKING:
    from sexton.audit.store import AuditReader


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


NOW = frozenset({"hold", "awaits_approval"} | {f"halted_{kind}" for kind in Kind})
"""Events that hold now; their ``at`` says since when."""


class Rules(NamedTuple):
    """By what it is judged whether a mark may go now, who says what is live, who remembers what SQL does not."""

    policy: Policy
    controls: ControlStore
    turns: TurnStore
    owner: Owner
    audit: "AuditReader"
