"""What a story is made of, and by whose word it is told."""

from typing import TYPE_CHECKING, NamedTuple

from sexton.operators.controls.store import ControlStore
from sexton.owners.port import Owner
from sexton.recycle.model import Policy
from sexton.recycle.rounds.sql.schedule import RoundSchedule

if TYPE_CHECKING:
    from sexton.recycle.audit.store import AuditReader


class Rules(NamedTuple):
    """By what it is judged whether a mark may go now, who says what is live, who remembers what SQL does not."""

    policy: Policy
    controls: ControlStore
    turns: RoundSchedule
    owner: Owner
    audit: "AuditReader"
