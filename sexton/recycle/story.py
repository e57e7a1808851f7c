"""What a story is made of, and by whose word it is told."""

from typing import TYPE_CHECKING, NamedTuple

from sexton.control.store import ControlStore
from sexton.owner.port import Owner
from sexton.recycle.model import Policy
from sexton.recycle.turns import TurnStore

if TYPE_CHECKING:
    from sexton.audit.store import AuditReader


class Rules(NamedTuple):
    """By what it is judged whether a mark may go now, who says what is live, who remembers what SQL does not."""

    policy: Policy
    controls: ControlStore
    turns: TurnStore
    owner: Owner
    audit: "AuditReader"
