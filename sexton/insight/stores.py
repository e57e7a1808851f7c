"""The stores that status, metrics and explanations read."""

from typing import NamedTuple

from sexton.operators.stores import OperatorStores
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning.sql.approvals import ApprovalStore
from sexton.recycle.rounds.sql.schedule import RoundSchedule


class InsightStores(NamedTuple):
    """Where status, metrics and explanations get their facts, beside the rows that they read themselves."""

    operators: OperatorStores
    """Instances, vaults, stops, lists, windows and holds."""
    schedule: RoundSchedule
    """When each instance has its next round."""
    approvals: ApprovalStore
    """Plans that wait for approval."""
    paces: PaceStore
    """How fast each place is deleted from, and operators' caps."""
