"""The check of one instance that an operator asks for."""

from sexton.check.model import CheckProgress, CheckReport, CheckRequest
from sexton.runtime.temporal.control_client import ControlClient
from workflows import ids
from workflows.search_attributes import Capability


def describe(progress: CheckProgress) -> str:
    """Return what a check does now, as a sentence for operators."""
    match progress.doing:
        case "COMPARING":
            return "it lists the vaults and compares them with the records"
        case "CHECKING_LOST_OBJECTS_AGAIN":
            return "it checks lost objects, uploads and records again"
        case "BACKING_OFF":
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {progress.error}; {again}, or now: sexton check retry {progress.instance}"
        case "PAUSED":
            return f"it is paused; to list everything again and go on: sexton check resume {progress.instance}"
        case other:
            return other.lower()


CHECKS = ControlClient[CheckRequest, CheckReport, CheckProgress](
    workflow_type=ids.CHECK,
    workflow_id=ids.check,
    capability=Capability.CHECK,
    subject=lambda request: request.instance,
    summary=lambda request: f"check {request.instance}, by hand",
    report=CheckReport,
    progress_type=CheckProgress,
    describe=describe,
    name="the check of {subject}",
    command="check",
    already_running="a check of {subject} is already running; see: sexton check progress {subject}",
    not_running="no check of {subject} is running; see: sexton check list {subject}",
)
