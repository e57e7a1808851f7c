"""The purge of one topic that an operator or the API asks for."""

from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.control_client import ControlClient
from sexton.wal.messages import PurgeProgress, PurgeReport, PurgeRequest
from workflows import ids


class AlreadyPurging(SextonError):
    """A purge of the topic that was started by hand still runs."""


def describe(progress: PurgeProgress) -> str:
    """Return what a purge does now, as a sentence for operators."""
    topic = progress.topic
    match progress.doing:
        case "PREPARING":
            return "it reads the log's state"
        case "FLUSHING":
            waiting = f"it waits for {progress.behind} regions to flush, which still need old entries"
            return f"{waiting}; to purge without them: sexton wal now {topic}"
        case "PURGING":
            return "it has the log delete entries"
        case "BACKING OFF":
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {progress.error}; {again}, or now: sexton wal retry {topic}"
        case "PAUSED":
            return f"it is paused; to go on: sexton wal resume {topic}"
        case other:
            return other.lower()


PURGES = ControlClient[PurgeRequest, PurgeReport, PurgeProgress](
    workflow_type=ids.PURGE_WAL,
    workflow_id=ids.purge_wal,
    subject=lambda request: request.topic,
    summary=lambda request: f"purge topic {request.topic}, by hand",
    report=PurgeReport,
    progress_type=PurgeProgress,
    describe=describe,
    name="the purge of topic {subject}",
    show_command="sexton wal progress {subject}",
    cancel_command="sexton wal cancel {subject}",
    already_running="a purge of topic {subject} is already running; see: sexton wal progress {subject}. Where it waits "
    "for flushes: sexton wal now, where it backs off: sexton wal retry, where it is paused: sexton wal resume",
    not_running="no purge of topic {subject} by hand is running; for scheduled ones see: sexton wal purges {subject}",
    conflict=AlreadyPurging,
)
