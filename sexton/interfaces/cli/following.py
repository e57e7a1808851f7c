"""Wait for work that an operation started, show how far it is, and return its report."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from sexton.database.engine import AWAY
from sexton.insight.wording import first_line
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.output import styled_console
from sexton.interfaces.cli.watching import REDRAW_SECONDS, screen
from sexton.kernel.errors import Left, SextonError
from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.model import RoundProgress

if TYPE_CHECKING:
    from temporalio.client import WorkflowFailureError, WorkflowHandle

    from sexton.deployment import Deployment
    from sexton.operations.fields import StartedWork

CONTROLS: Mapping[str, str] = {
    "check run": "CHECKS",
    "wal purge": "PURGES",
    "wal round run": "PURGE_ROUNDS",
    "binlog gc": "BINLOG_GCS",
}
"""Operation → its work in ``sexton.runtime.temporal.works``; every other one starts a round."""
QUERY_PATIENCE = dt.timedelta(seconds=2)
WORKER_PATIENCE_SECONDS = 5.0
"""After this long without a report, the operator is warned if no worker has taken the round."""


def follow(operation: str, service: "Deployment", started: "StartedWork") -> Any:
    """Return the report of started work; that of a failed round is read from the database.

    Ctrl-C ends the waiting, not the work.
    """
    if operation in CONTROLS:
        from sexton.runtime.temporal import works

        run, subject = (started.workflow, started.run), started.topic or started.instance
        work = getattr(works, CONTROLS[operation])
        return work.follow(service.settings, run, subject, lambda text: typer.echo(text, err=True))
    result = asyncio.run(_await(service, started))
    return result if isinstance(result, RoundReport) else service.stores.reports.report(result)


async def _await(service: "Deployment", started: "StartedWork") -> RoundReport | int:
    """Return the report, or the number of the round that failed."""
    from temporalio.client import WorkflowFailureError
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    client = await connect(service.settings)
    handle = client.get_workflow_handle(started.workflow, run_id=started.run or None, result_type=RoundReport)
    try:
        return await _wait(handle, service, started.instance)
    except WorkflowFailureError as e:
        return _failed_round(e, started.instance)
    except RPCError as e:
        raise Left(
            f"the connection to Temporal was lost ({e.message}); the round continues when Temporal is back: "
            "sexton status"
        ) from e
    except (asyncio.CancelledError, KeyboardInterrupt):
        end = f"sexton round cancel {started.instance}"
        typer.echo(f"the round continues without this command; see: sexton status; to end it: {end}", err=True)
        raise


def _failed_round(error: "WorkflowFailureError", instance: str) -> int:
    """Return the number of the round that failed; raise ``SextonError`` if the failure names no round."""
    from temporalio.exceptions import ActivityError, ApplicationError, TerminatedError
    from temporalio.exceptions import CancelledError as TemporalCancelled

    from workflows import ids

    cause: BaseException | None = error.cause
    if isinstance(cause, ApplicationError) and cause.type == ids.ROUND_FAILED:
        return int(cause.details[0])
    if isinstance(cause, TemporalCancelled):
        raise SextonError(f"the round of {instance} was cancelled; see: sexton round list") from error
    if isinstance(cause, TerminatedError):
        raise SextonError(
            f"the round of {instance} was terminated in Temporal ({cause.message}); once its lease has ended, the next "
            f"round deletes what it claimed; to prevent that: sexton stop {instance} --reason TEXT"
        ) from error
    if isinstance(cause, ActivityError):
        cause = cause.cause
    raise SextonError(str(getattr(cause, "message", cause) or error)) from error


async def _phase(handle: "WorkflowHandle[Any, RoundReport]") -> str:
    """Return what a round does that has no row yet; it may wait for its lease, or be paused."""
    from temporalio.client import WorkflowQueryFailedError, WorkflowQueryRejectedError
    from temporalio.service import RPCError

    try:
        progress = await handle.query("progress", result_type=RoundProgress, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return "no worker answers what the round does"
    return f"{progress.doing}{f': {first_line(progress.error)}' if progress.error else ''}"


async def _wait(handle: "WorkflowHandle[Any, RoundReport]", service: "Deployment", instance: str) -> RoundReport:
    """Return the report. While waiting, show the round at a terminal, and warn once if no worker has taken it."""
    from sexton.insight.progress import read_running
    from sexton.runtime.temporal.client import taken

    report = asyncio.ensure_future(handle.result())
    deadline = asyncio.get_running_loop().time() + WORKER_PATIENCE_SECONDS
    worker_checked, phase = False, "the round has not begun"
    with ExitStack() as stack:
        show = None
        if styled_console(stderr=True).is_terminal and not wants_json():
            show = stack.enter_context(screen(lambda: [phase], stderr=True))
        while not (await asyncio.wait({report}, timeout=REDRAW_SECONDS if show else WORKER_PATIENCE_SECONDS))[0]:
            if not worker_checked and asyncio.get_running_loop().time() >= deadline:
                worker_checked = True
                if not await taken(handle):
                    way_out = "see: sexton doctor, or start one: sexton worker run"
                    typer.echo(f"no worker has taken the round yet; {way_out}", err=True)
            if show:
                try:
                    works = await asyncio.to_thread(read_running, service.db, instance)
                except AWAY:  # the round goes on without it
                    rounds, phase = [], "the database does not answer"
                else:
                    rounds = [work for work in works if work.work == "round"]
                    phase = phase if rounds else await _phase(handle)
                show(rounds)
    return report.result()
