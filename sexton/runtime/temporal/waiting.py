"""Find the runs of a deployment that wait: paused, or backing off, or paused with a button of Temporal.

The row of a round says so only if it ever had a lease, and of a button never.
"""

import asyncio
import datetime as dt
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.check.model import CheckProgress
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.recycle.rounds.model import RoundProgress
from sexton.replication.binlog.messages import GcProgress
from sexton.runtime.temporal.search_attributes import missing
from sexton.wal.messages import PurgeProgress, PurgeRoundProgress
from workflows import ids
from workflows.search_attributes import CAPABILITY, STATE

QUERY_PATIENCE = dt.timedelta(seconds=1)
STATES = {"PAUSED": "paused", "BACKING_OFF": "backing off"}
PROGRESS: dict[str, Any] = {
    ids.RECYCLE: RoundProgress,
    ids.CHECK: CheckProgress,
    ids.PURGE_WAL: PurgeProgress,
    ids.PURGE_WAL_ROUND: PurgeRoundProgress,
    ids.GC_BINLOG: GcProgress,
}


PAUSED_IN_TEMPORAL = "paused in Temporal"
NAMES = {
    ids.RECYCLE: "round of {}",
    ids.CHECK: "check of {}",
    ids.PURGE_WAL: "purge of topic {}",
    ids.PURGE_WAL_ROUND: "round of topics",
    ids.GC_BINLOG: "binlog run of {}",
}


class WaitingRun(Message):
    """A round, a check, a purge or a binlog run that waits; ``since``: when it began (ms since 1970)."""

    name: str
    state: str
    is_round: bool
    instance: str = ""
    topic: str = ""
    since: int
    why: str = ""
    way_out: str = ""


class WaitingRuns(Message):
    """The runs that wait; ``unseen``: there are more open runs, some of which may wait too."""

    runs: tuple[WaitingRun, ...]
    unseen: bool


async def find_waiting(client: Client, settings: Settings, limit: int) -> WaitingRuns:
    """Return so many runs of this deployment that wait; one that does not answer is left out.

    Where the namespace knows Sexton's search attributes, only runs that wait are asked, else the first open ones.

    Raises:
        SextonError: Temporal does not list them.
    """
    types = ", ".join(f"'{name}'" for name in PROGRESS)
    query = f"WorkflowType IN ({types}) AND ExecutionStatus = 'Running'"
    query += f" AND WorkflowId STARTS_WITH '{settings.require_deployment()}/'"
    if not await missing(client):
        states = ", ".join(f"'{state}'" for state in STATES)
        query += f" AND ({STATE.name} IN ({states}) OR {CAPABILITY.name} IS NULL)"
    try:
        runs = [run async for run in client.list_workflows(query, limit=limit + 1)]
    except RPCError as e:
        raise SextonError(f"Temporal did not list the runs that wait: {e.message}") from e
    found = await asyncio.gather(*(_waiting(client, run) for run in runs[:limit]))
    return WaitingRuns(runs=tuple(run for run in found if run is not None), unseen=len(runs) > limit)


async def _waiting(client: Client, run: WorkflowExecution) -> WaitingRun | None:
    handle = client.get_workflow_handle(run.id)
    try:
        result_type = PROGRESS[run.workflow_type]
        progress = await handle.query("progress", result_type=result_type, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return None
    state = STATES.get(progress.doing)
    if state is None:
        return None
    subject = run.id.split("/", 2)[-1]
    verb = "resume" if state == "paused" else "retry"
    command = {
        ids.RECYCLE: f"sexton round {verb} {subject}",
        ids.PURGE_WAL: f"sexton wal {verb} {subject}",
        ids.PURGE_WAL_ROUND: f"sexton wal round {verb}",
        ids.CHECK: f"sexton check {verb} {subject}",
        ids.GC_BINLOG: f"sexton binlog {verb} {subject}",
    }[run.workflow_type]
    return _named(run, state, getattr(progress, "error", ""), command)


def _named(run: WorkflowExecution, state: str, why: str, way_out: str) -> WaitingRun:
    subject = run.id.split("/", 2)[-1]
    return WaitingRun(
        name=NAMES[run.workflow_type].format(subject),
        state=state,
        is_round=run.workflow_type == ids.RECYCLE,
        instance=subject if run.workflow_type in (ids.GC_BINLOG, ids.CHECK, ids.RECYCLE) else "",
        topic=subject if run.workflow_type == ids.PURGE_WAL else "",
        since=int(run.start_time.timestamp() * 1000),
        why=why,
        way_out=way_out,
    )


async def find_paused_in_temporal(client: Client, settings: Settings, limit: int) -> list[WaitingRun]:
    """Return runs of which an activity, or the workflow, was paused with a button of Temporal.

    Their own state does not show it: a round only loses its lease. A server that does not know the attribute is one
    that has no such button.
    """
    query = "TemporalPauseInfo IS NOT NULL AND ExecutionStatus = 'Running'"
    prefix = f"{settings.require_deployment()}/"
    try:
        runs = [run async for run in client.list_workflows(query, limit=10 * limit) if run.id.startswith(prefix)]
    except RPCError:
        return []
    why = "an activity of it was paused with Temporal's own button or command"
    return [
        _named(run, PAUSED_IN_TEMPORAL, why, f"unpause it there: workflow {run.id}, its pending activities")
        for run in runs[:limit]
        if run.workflow_type in NAMES
    ]
