"""The purge of one topic, and the round that starts the purges of the topics with work."""

from sexton.kernel.errors import Conflict
from sexton.runtime.temporal.control_client import ControlClient
from sexton.wal.messages import (
    PurgeProgress,
    PurgeReport,
    PurgeRequest,
    PurgeRoundProgress,
    PurgeRoundRequest,
    TopicCounts,
)
from workflows import ids
from workflows.search_attributes import Capability


class AlreadyPurging(Conflict):
    """A purge of the topic runs, scheduled or started by hand."""


def describe(progress: PurgeProgress) -> str:
    """Return what a purge does now, as a sentence for operators."""
    topic = progress.topic
    match progress.doing:
        case "PREPARING":
            return "it reads the log's state"
        case "FLUSHING":
            regions = "1 region" if progress.behind == 1 else f"{progress.behind:,} regions"
            waiting = f"it waits for {regions} to flush old entries"
            return f"{waiting}; to purge without them: sexton wal now {topic}"
        case "PURGING":
            return "it has the log delete entries"
        case "BACKING_OFF":
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {progress.error}; {again}, or now: sexton wal retry {topic}"
        case "PAUSED":
            return f"it is paused; to go on: sexton wal resume {topic}"
        case other:
            return other.lower()


def describe_round(progress: PurgeRoundProgress) -> str:
    """Return what a round of topics does now, as a sentence for operators."""
    match progress.doing:
        case "REVIEWING":
            return "it reviews the due topics"
        case "STARTING":
            return f"{progress.counts.started:,} purges started, {progress.remaining:,} to start"
        case "BACKING_OFF":
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {progress.error}; {again}, or now: sexton wal round retry"
        case "PAUSED":
            return "it is paused, and no other round begins; to go on: sexton wal round resume"
        case other:
            return other.lower()


PURGES = ControlClient[PurgeRequest, PurgeReport, PurgeProgress](
    workflow_type=ids.PURGE_WAL,
    workflow_id=ids.purge_wal,
    capability=Capability.WAL,
    subject=lambda request: request.topic,
    summary=lambda request: f"purge topic {request.topic}, by hand",
    report=PurgeReport,
    progress_type=PurgeProgress,
    describe=describe,
    name="the purge of topic {subject}",
    command="wal",
    already_running="a purge of topic {subject} is already running; see: sexton wal progress {subject}. Where it waits "
    "for flushes: sexton wal now, where it backs off: sexton wal retry, where it is paused: sexton wal resume",
    not_running="no purge of topic {subject} is running; for earlier ones see: sexton wal purges {subject}",
    conflict=AlreadyPurging,
)

PURGE_ROUNDS = ControlClient[PurgeRoundRequest, TopicCounts, PurgeRoundProgress](
    workflow_type=ids.PURGE_WAL_ROUND,
    workflow_id=lambda deployment, _: ids.purge_wal_round(deployment),
    capability=Capability.WAL,
    subject=lambda _: "",
    summary=lambda _: "purge topics, by hand",
    report=TopicCounts,
    progress_type=PurgeRoundProgress,
    describe=describe_round,
    name="the round of topics",
    command="wal round",
    already_running="a round of topics is already running; see: sexton wal round progress",
    not_running="no round of topics is running: it lasts for seconds. For purges see: sexton wal list",
)
