"""List what Temporal knows of: no schedule, a paused one, no worker, and runs that wait or were paused with its button.

Temporal is asked for a few seconds only; the database has everything else.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from sexton.insight.views import Blocker
from sexton.kernel.errors import SextonError
from sexton.runtime.blockers.work import ALL_INSTANCES

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings
    from sexton.deployment import Deployment
    from sexton.runtime.temporal.waiting import WaitingRun

PATIENCE_SECONDS = 3.0
MAX_RUNS = 20
LIST_THEM = "list them: docs/temporal.md, Find a workflow"
NOT_ASKED = (
    "Temporal did not answer: schedule, workers, paused checks, purges and binlog GCs are not listed. "
    "While it is away, no round begins; see: sexton doctor"
)


def temporal_blockers(service: "Deployment") -> list[Blocker] | None:
    """Return what Temporal knows of; None: it did not answer in time."""
    try:
        return asyncio.run(asyncio.wait_for(_find(service), PATIENCE_SECONDS))
    except (TimeoutError, SextonError):
        return None


async def _find(service: "Deployment") -> list[Blocker]:
    from sexton.runtime.temporal.client import connect, workflow_queue
    from sexton.runtime.temporal.versions import explain_no_tasks, way_out
    from sexton.runtime.temporal.waiting import find_paused_in_temporal, find_waiting

    settings = service.settings
    client = await connect(settings)
    queue = await workflow_queue(client, settings)
    found = await _schedule(client, settings)
    everything: dict[str, Any] = {"instance": ALL_INSTANCES, "what": "everything", "held_by": "no worker"}
    if not queue.pollers:
        why = "no worker polls this deployment's queue"
        return [*found, Blocker(**everything, why=why, way_out="sexton worker run")]
    if idle := explain_no_tasks(queue):
        return [*found, Blocker(**everything, why=idle, way_out=way_out(queue))]
    waiting = await find_waiting(client, settings, MAX_RUNS)
    for run in (*await find_paused_in_temporal(client, settings, MAX_RUNS), *waiting.runs):
        if run.is_round and _row_says_so(service, run):
            continue
        instance = run.instance or ALL_INSTANCES
        if run.topic:  # anyone who reaches Temporal may name a topic
            topic = service.stores.wal.floors.topics([run.topic]).get(run.topic)
            instance = topic.instance if topic is not None else ALL_INSTANCES
        values = run.model_dump(include={"since", "why", "way_out"})
        found.append(Blocker(instance=instance, held_by=run.state, what=run.name, **values))
    if waiting.unseen:
        why = f"only {MAX_RUNS} rounds, checks, purges and binlog GCs were asked; others may wait, too"
        others = Blocker(instance=ALL_INSTANCES, held_by="not asked", what="further runs", why=why, way_out=LIST_THEM)
        found.append(others)
    return found


def _row_says_so(service: "Deployment", run: "WaitingRun") -> bool:
    """Return whether the row of a round says that it waits: then it is listed with that."""
    rows = service.stores.reports.rounds(run.instance, last=1)
    return any(row.ended_at is None and row.waiting and row.waiting.startswith(run.state) for row in rows)


async def _schedule(client: "Client", settings: "Settings") -> list[Blocker]:
    from sexton.runtime.temporal import schedules

    common: dict[str, Any] = {"instance": ALL_INSTANCES, "what": "all rounds, checks, purges and binlog GCs"}
    try:
        stored = await schedules.describe(client, settings.require_deployment())
    except schedules.AttributesMissing as e:
        why, _, way_out = str(e).partition("; ")
        return [Blocker(held_by="search attributes", why=why, way_out=way_out, **common)]
    if not stored:
        return [Blocker(held_by="no schedule", why="none was applied", way_out="sexton schedules apply", **common)]
    return [
        Blocker(held_by="paused schedule", since=s.last, why=s.note, way_out="sexton schedules resume", **common)
        for s in stored
        if s.paused
    ]
