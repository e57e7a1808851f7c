"""The binlog GC of one instance that an operator asks for."""

from sexton.kernel.errors import SextonError
from sexton.replication.binlog.messages import GcProgress, GcReport, GcRequest
from sexton.runtime.temporal.control_client import ControlClient
from workflows import ids
from workflows.search_attributes import Capability


class AlreadyCollecting(SextonError):
    """A binlog GC of the instance runs, scheduled or started by hand."""


def describe(progress: GcProgress) -> str:
    """Return what a binlog GC does now, as a sentence for operators."""
    match progress.doing:
        case "BEGINNING":
            return "it begins"
        case "CUTTING":
            return "it cuts expired records"
        case "SENDING":
            absent = f", {progress.away} did not answer" if progress.away else ""
            return f"{progress.cut.records:,} records cut; {progress.waits} backends are deleting theirs{absent}"
        case "BACKING_OFF":
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {progress.error}; {again}, or now: sexton binlog retry {progress.instance}"
        case "PAUSED":
            return f"it is paused; to go on: sexton binlog resume {progress.instance}"
        case other:
            return other.lower()


BINLOG_GCS = ControlClient[GcRequest, GcReport, GcProgress](
    workflow_type=ids.GC_BINLOG,
    workflow_id=ids.gc_binlog,
    capability=Capability.BINLOG,
    subject=lambda request: request.instance,
    summary=lambda request: f"binlogs of {request.instance}, by hand",
    report=GcReport,
    progress_type=GcProgress,
    describe=describe,
    name="the binlog GC of {subject}",
    command="binlog",
    already_running="a binlog GC of {subject} is already running; see: sexton binlog progress. Where it backs off: "
    "sexton binlog retry, where it is paused: sexton binlog resume",
    not_running="no binlog GC of {subject} is running; see: sexton binlog list",
    conflict=AlreadyCollecting,
)
