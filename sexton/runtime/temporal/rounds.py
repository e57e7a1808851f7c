"""The round of one instance that an operator or the API asks for."""

from sexton.kernel.errors import Conflict
from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.model import RecycleRequest, RoundProgress
from sexton.runtime.temporal.control_client import ControlClient
from workflows import ids
from workflows.search_attributes import Capability


class AlreadyRunning(Conflict):
    """A round of the instance is running."""


def _summary(request: RecycleRequest) -> str:
    plan = f", plan {request.plan}" if request.plan else ""
    return f"recycle {request.instance}, by hand{plan}"


ROUNDS = ControlClient[RecycleRequest, RoundReport, RoundProgress](
    workflow_type=ids.RECYCLE,
    workflow_id=ids.recycle,
    capability=Capability.RECYCLE,
    subject=lambda request: request.instance,
    summary=_summary,
    report=RoundReport,
    progress_type=RoundProgress,
    name="the round of {subject}",
    command="round",
    already_running="a round of {subject} is already running; see: sexton status",
    not_running="no round of {subject} is running; see: sexton status",
    conflict=AlreadyRunning,
)
