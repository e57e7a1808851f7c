"""Find the runs of a deployment that wait: paused, backing off, or paused with a button of Temporal.

The row of a round says so only if it ever had a lease, and of a button never.
"""

import asyncio
import datetime as dt

from pydantic import Field
from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.runtime.temporal.search_attributes import missing
from sexton.runtime.temporal.works import OF_REQUEST, PURGES, ROUNDS
from workflows.search_attributes import CAPABILITY, STATE

QUERY_PATIENCE = dt.timedelta(seconds=1)
STATES = {"PAUSED": ("paused", "resume"), "BACKING_OFF": ("backing off", "retry")}
"""What a workflow does → the same for people, and the signal that ends it."""
CONTROLS = {control.workflow_type: control for control in OF_REQUEST.values()}
PAUSED_IN_TEMPORAL = "paused in Temporal"


class WaitingRun(Message):
    """A round, a check, a purge or a binlog GC that waits; ``since``: when it began (ms since 1970)."""

    name: str
    state: str
    is_round: bool
    instance: str = ""
    topic: str = ""
    since: int = Field(alias="since_at")
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
    types = ", ".join(f"'{name}'" for name in CONTROLS)
    query = f"WorkflowType IN ({types}) AND {_running(settings)}"
    if not await missing(client):
        states = ", ".join(f"'{state}'" for state in STATES)
        query += f" AND ({STATE.name} IN ({states}) OR {CAPABILITY.name} IS NULL)"
    try:
        runs = [run async for run in client.list_workflows(query, limit=limit + 1)]
    except RPCError as e:
        raise SextonError(f"Temporal did not list the runs that wait: {e.message}") from e
    found = await asyncio.gather(*(_waiting(client, run) for run in runs[:limit]))
    return WaitingRuns(runs=tuple(run for run in found if run is not None), unseen=len(runs) > limit)


async def find_paused_in_temporal(client: Client, settings: Settings, limit: int) -> list[WaitingRun]:
    """Return runs that were paused with a button of Temporal, as a whole or in one of their activities.

    Their own state does not show it: a round only loses its lease. A server that does not know the attribute is one
    that has no such button.
    """
    query = f"TemporalPauseInfo IS NOT NULL AND {_running(settings)}"
    try:
        runs = [run async for run in client.list_workflows(query, limit=limit)]
    except RPCError:
        return []
    why = "an activity of it was paused with Temporal's own button or command"
    return [
        _named(run, PAUSED_IN_TEMPORAL, why, f"unpause it there: workflow {run.id}, its pending activities")
        for run in runs
        if run.workflow_type in CONTROLS
    ]


def _running(settings: Settings) -> str:
    """Return the query for everything of this deployment that runs."""
    return f"ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{settings.require_deployment()}/'"


async def _waiting(client: Client, run: WorkflowExecution) -> WaitingRun | None:
    control, handle = CONTROLS[run.workflow_type], client.get_workflow_handle(run.id)
    try:
        progress = await handle.query("progress", result_type=control.progress_type, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return None
    if progress.doing not in STATES:
        return None
    state, signal = STATES[progress.doing]
    return _named(run, state, getattr(progress, "error", ""), control.command_for(signal, _subject(run)))


def _named(run: WorkflowExecution, state: str, why: str, way_out: str) -> WaitingRun:
    control, subject = CONTROLS[run.workflow_type], _subject(run)
    is_purge = control is PURGES
    return WaitingRun(
        name=control.name.format(subject=subject).removeprefix("the "),
        state=state,
        is_round=control is ROUNDS,
        instance="" if is_purge else subject,
        topic=subject if is_purge else "",
        since=int(run.start_time.timestamp() * 1000),
        why=why,
        way_out=way_out,
    )


def _subject(run: WorkflowExecution) -> str:
    """Return the instance or topic of a run; empty: the round of topics has none."""
    return "".join(run.id.split("/", 2)[2:])
