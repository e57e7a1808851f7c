"""List what Temporal knows of that blocks deletions: no schedule, no worker, and runs that wait.

A run waits if it is paused, backs off, or was paused with a button of Temporal; the row of a round says so only if it
ever had a lease, and of a button never. Temporal is asked for a few seconds only; the database has everything else.
"""

import asyncio
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.insight.views import ALL_INSTANCES
from sexton.kernel.errors import SextonError
from sexton.marks.kept import WAITS, Blocker, Severity, Wait
from sexton.runtime.temporal import schedules
from sexton.runtime.temporal.client import connect, workflow_queue
from sexton.runtime.temporal.search_attributes import missing
from sexton.runtime.temporal.versions import explain_no_tasks, way_out
from sexton.runtime.temporal.works import OF_REQUEST, PURGES, ROUNDS
from workflows.search_attributes import CAPABILITY, STATE

if TYPE_CHECKING:
    from sexton.runtime.deployment import Deployment

PATIENCE_SECONDS = 3.0
QUERY_PATIENCE = dt.timedelta(seconds=1)
MAX_RUNS = 20
Waiting = tuple[WorkflowExecution, Wait, str, str]
"""A run that waits, its wait, why, and the way out."""
IN_TEMPORAL = Wait("paused in Temporal", "", Severity.HALTED)
CONTROLS = {control.workflow_type: control for control in OF_REQUEST.values()}


def temporal_blockers(service: "Deployment") -> list[Blocker] | None:
    """Return what Temporal knows of; None: it did not answer in time."""
    try:
        return asyncio.run(asyncio.wait_for(_find(service), PATIENCE_SECONDS))
    except (TimeoutError, SextonError):
        return None


async def _find(service: "Deployment") -> list[Blocker]:
    settings = service.settings
    client = await connect(settings)
    queue = await workflow_queue(client, settings)
    found = await _schedule(client, settings)
    everything: dict[str, Any] = {"instance": ALL_INSTANCES, "what": "everything", "held_by": "no worker"}
    everything["severity"] = Severity.OVERDUE
    if not queue.pollers:
        why = "no worker polls this deployment's queue"
        return [*found, Blocker(**everything, why=why, way_out="sexton worker run")]
    if idle := explain_no_tasks(queue):
        return [*found, Blocker(**everything, why=idle, way_out=way_out(queue))]
    found += await failing(client, settings)
    runs = await _paused_in_temporal(client, settings)
    try:
        waiting, others = await _waiting(client, _running(settings))
    except SextonError as e:  # what else is known is listed all the same
        unlisted = {"held_by": "not asked", "what": "runs that wait", "why": str(e), "way_out": "sexton doctor"}
        waiting, others = [], [Blocker(instance=ALL_INSTANCES, **unlisted)]
    # Temporal has answered: a slow database takes none of its time.
    return [*found, *(blocker for each in (*runs, *waiting) for blocker in _blocker(service, *each)), *others]


def _running(settings: Settings) -> str:
    return f"ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{settings.require_deployment()}/'"


async def running_purges(client: Client, settings: Settings) -> list[str]:
    """Return the topics whose own purges run, wait or are paused. Temporal's list lags behind by about a second."""
    query = f"WorkflowType = '{PURGES.workflow_type}' AND {_running(settings)}"
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [_subject(run) async for run in client.list_workflows(query)]


async def failing(client: Client, settings: Settings) -> list[Blocker]:
    """Return the runs that no worker can continue: their workflow tasks fail again and again."""
    runs = await _having(client, settings, "TemporalReportedProblems")
    why = "no worker can continue it: their code fails, or is another than the one that began it; their logs say how"
    common: dict[str, Any] = {"severity": Severity.FAULT, "held_by": "failing code", "why": why}
    common["way_out"] = "run workers of the build that began it (docs/upgrade.md), or correct the code"
    return [Blocker(instance=_subject(run) or ALL_INSTANCES, what=_name(run), **common) for run in runs]


async def _schedule(client: Client, settings: Settings) -> list[Blocker]:
    common: dict[str, Any] = {"instance": ALL_INSTANCES, "what": "all rounds, checks, purges and binlog GCs"}
    common["severity"] = Severity.OVERDUE
    try:
        stored = await schedules.describe(client, settings.require_deployment())
    except schedules.AttributesMissing as e:
        why, _, way_out = str(e).partition("; ")
        return [Blocker(held_by="search attributes", why=why, way_out=way_out, **common)]
    if not stored:
        return [Blocker(held_by="no schedule", why="none was applied", way_out="sexton schedules apply", **common)]
    common |= {"severity": Severity.HALTED, "way_out": "sexton schedules resume"}
    return [Blocker(held_by="paused schedule", since=s.last, why=s.note, **common) for s in stored if s.paused]


async def _having(client: Client, settings: Settings, attribute: str) -> list[WorkflowExecution]:
    """Return running works with an attribute of Temporal's own; none where the server does not know it."""
    query = f"{attribute} IS NOT NULL AND {_running(settings)}"
    try:
        return [run async for run in client.list_workflows(query, limit=MAX_RUNS) if run.workflow_type in CONTROLS]
    except RPCError:
        return []


async def _paused_in_temporal(client: Client, settings: Settings) -> list[Waiting]:
    """Return runs that were paused with a button of Temporal, as a whole or in one of their activities.

    Their own state does not show it: a round only loses its lease.
    """
    runs = await _having(client, settings, "TemporalPauseInfo")
    why = "an activity of it was paused with Temporal's own button or command"
    unpause = "unpause it there: workflow {}, its pending activities"
    return [(run, IN_TEMPORAL, why, unpause.format(run.id)) for run in runs]


async def _waiting(client: Client, running: str) -> tuple[list[Waiting], list[Blocker]]:
    """Return the runs that are paused or back off, and that some were not asked; one that does not answer is left out.

    Where the namespace knows Sexton's search attributes, only runs that wait are asked, else the first open ones.

    Raises:
        SextonError: Temporal does not list them.
    """
    types = ", ".join(f"'{name}'" for name in CONTROLS)
    query = f"WorkflowType IN ({types}) AND {running}"
    if not await missing(client):
        states = ", ".join(f"'{state}'" for state in WAITS)
        query += f" AND ({STATE.name} IN ({states}) OR {CAPABILITY.name} IS NULL)"
    try:
        runs = [run async for run in client.list_workflows(query, limit=MAX_RUNS + 1)]
    except RPCError as e:
        raise SextonError(f"Temporal did not list the runs that wait: {e.message}") from e
    asked = runs[:MAX_RUNS]
    found: list[Waiting] = []
    for run, progress in zip(asked, await asyncio.gather(*(_progress(client, run) for run in asked)), strict=True):
        if progress is not None and (wait := WAITS.get(progress.doing)) is not None:
            command = CONTROLS[run.workflow_type].command_for(wait.signal, _subject(run))
            found.append((run, wait, getattr(progress, "error", ""), command))
    if len(runs) <= MAX_RUNS:
        return found, []
    why = f"only {MAX_RUNS} rounds, checks, purges and binlog GCs were asked; others may wait, too"
    list_them = "list them: docs/temporal.md, Find a workflow"
    others = {"held_by": "not asked", "what": "further runs", "why": why, "way_out": list_them}
    return found, [Blocker(instance=ALL_INSTANCES, **others)]


async def _progress(client: Client, run: WorkflowExecution) -> Any:
    """Return what a run answers; None: it does not answer."""
    handle, answer = client.get_workflow_handle(run.id), CONTROLS[run.workflow_type].progress_type
    try:
        return await handle.query("progress", result_type=answer, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return None


def _blocker(service: "Deployment", run: WorkflowExecution, wait: Wait, why: str, way_out: str) -> Iterator[Blocker]:
    """Yield a run that waits, except a round whose row says so: it is listed with that."""
    control, subject = CONTROLS[run.workflow_type], _subject(run)
    instance = subject or ALL_INSTANCES
    if control is ROUNDS:
        rows = service.stores.reports.rounds(subject, last=1)
        if any(row.ended_at is None and row.waiting and WAITS.get(row.wait) == wait for row in rows):
            return
    if control is PURGES:  # anyone who reaches Temporal may name a topic
        topic = service.stores.wal.floors.topics([subject]).get(subject)
        instance = topic.instance if topic is not None else ALL_INSTANCES
    state, _, severity = wait
    more = {"since": int(run.start_time.timestamp() * 1000), "why": why, "way_out": way_out}
    yield Blocker(severity=severity, instance=instance, held_by=state, what=_name(run), **more)


def _name(run: WorkflowExecution) -> str:
    return CONTROLS[run.workflow_type].name.format(subject=_subject(run)).removeprefix("the ")


def _subject(run: WorkflowExecution) -> str:
    """Return the instance or topic of a run; empty: the round of topics has none."""
    return "".join(run.id.split("/", 2)[2:])
