"""The work that runs as workflows, at most one for each instance or topic: rounds, checks, purges and binlog GCs."""

from typing import Any

from sexton.check.model import CheckProgress, CheckReport, CheckRequest
from sexton.insight.wording import quantity
from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.model import RecycleRequest, RoundProgress
from sexton.replication.binlog.model import GcProgress, GcReport, GcRequest
from sexton.runtime.temporal.control_client import AlreadyPurging, ControlClient
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

ROUNDS = ControlClient[RecycleRequest, RoundReport, RoundProgress](
    workflow_type=ids.RECYCLE,
    workflow_id=ids.recycle,
    capability=Capability.RECYCLE,
    subject=lambda request: request.instance,
    summary=lambda r: f"recycle {r.instance}, by hand{f', plan {r.plan}' if r.plan else ''}",
    report=RoundReport,
    progress_type=RoundProgress,
    name="the round of {subject}",
    command="round",
    already_running="a round of {subject} is already running; see: sexton status",
    not_running="no round of {subject} is running; see: sexton status",
)
CHECKS = ControlClient[CheckRequest, CheckReport, CheckProgress](
    workflow_type=ids.CHECK,
    workflow_id=ids.check,
    capability=Capability.CHECK,
    subject=lambda request: request.instance,
    summary=lambda request: f"check {request.instance}, by hand",
    report=CheckReport,
    progress_type=CheckProgress,
    texts={
        "COMPARING": lambda _: "it lists the vaults and compares them with the records",
        "CHECKING_LOST_OBJECTS_AGAIN": lambda _: "it checks lost objects, uploads and records again",
        ids.PAUSED: lambda _: "it is paused; to list everything again and go on",
    },
    name="the check of {subject}",
    command="check",
    already_running="a check of {subject} is already running; see: sexton check progress {subject}",
    not_running="no check of {subject} is running; see: sexton check list {subject}",
)
PURGES = ControlClient[PurgeRequest, PurgeReport, PurgeProgress](
    workflow_type=ids.PURGE_WAL,
    workflow_id=ids.purge_wal,
    capability=Capability.WAL,
    subject=lambda request: request.topic,
    summary=lambda request: f"purge topic {request.topic}, by hand",
    report=PurgeReport,
    progress_type=PurgeProgress,
    texts={
        "PREPARING": lambda _: "it reads the log's state",
        "FLUSHING": lambda p: (
            f"it waits for {quantity(p.behind, 'region')} to flush old entries; "
            f"to purge without them: sexton wal now {p.topic}"
        ),
        "PURGING": lambda _: "it has the log delete entries",
    },
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
    texts={
        "REVIEWING": lambda _: "it reviews the due topics",
        "PURGING": lambda p: f"{p.counts.purged:,} topics purged, {p.remaining:,} to go",
        ids.PAUSED: lambda _: "it is paused, and no other round begins; to go on",
    },
    name="the round of topics",
    command="wal round",
    already_running="a round of topics is already running; see: sexton wal round progress",
    not_running="no round of topics is running: it lasts for seconds. For purges see: sexton wal list",
)
BINLOG_GCS = ControlClient[GcRequest, GcReport, GcProgress](
    workflow_type=ids.GC_BINLOG,
    workflow_id=ids.gc_binlog,
    capability=Capability.BINLOG,
    subject=lambda request: request.instance,
    summary=lambda request: f"binlogs of {request.instance}, by hand",
    report=GcReport,
    progress_type=GcProgress,
    texts={
        "BEGINNING": lambda _: "it begins",
        "CUTTING": lambda _: "it cuts expired records",
        "SENDING": lambda p: (
            f"{p.cut.records:,} records cut; {p.waits} backends are deleting theirs"
            f"{f', {p.away} did not answer' if p.away else ''}"
        ),
    },
    name="the binlog GC of {subject}",
    command="binlog",
    already_running="a binlog GC of {subject} is already running; see: sexton binlog progress. Where it backs off: "
    "sexton binlog retry, where it is paused: sexton binlog resume",
    not_running="no binlog GC of {subject} is running; see: sexton binlog list",
)
OF_REQUEST: dict[type, ControlClient[Any, Any, Any]] = {
    RecycleRequest: ROUNDS,
    CheckRequest: CHECKS,
    PurgeRequest: PURGES,
    PurgeRoundRequest: PURGE_ROUNDS,
    GcRequest: BINLOG_GCS,
}
"""The work that a request starts."""
