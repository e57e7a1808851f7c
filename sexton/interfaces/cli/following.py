"""Wait for work that an operation started, show how far it is, and return its report."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import typer

from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.progress import ProgressDisplay, progress_display
from sexton.kernel.errors import Left, SextonError
from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.model import RoundProgress

if TYPE_CHECKING:
    from temporalio.client import WorkflowFailureError, WorkflowHandle

    from sexton.database.engine import Database
    from sexton.deployment import Deployment
    from sexton.operations.fields import StartedWork

CONTROLS: Mapping[str, str] = {
    "check run": "checks:CHECKS",
    "wal purge": "purges:PURGES",
    "wal round run": "purges:PURGE_ROUNDS",
    "binlog gc": "binlogs:BINLOG_GCS",
}
"""Operation → the client of ``sexton.runtime.temporal`` that follows its work; every other one starts a round."""
DISPLAY_SECONDS = 0.5
"""How often the progress display is updated."""
WORKER_PATIENCE_SECONDS = 5.0
"""After this long without a report, the operator is warned if no worker has taken the round."""
QUERY_PATIENCE = dt.timedelta(seconds=2)


def follow(operation: str, service: "Deployment", started: "StartedWork") -> Any:
    """Return the report of started work; that of a failed round is read from the database.

    Ctrl-C ends the waiting, not the work.
    """
    if operation in CONTROLS:
        control, subject = (
            resolve_name(f"sexton.runtime.temporal.{CONTROLS[operation]}"),
            started.topic or started.instance,
        )
        return control.follow(service.settings, started, subject, lambda text: typer.echo(text, err=True))
    result = asyncio.run(_await(service, started, not wants_json()))
    return result if isinstance(result, RoundReport) else service.stores.reports.report(result)


async def _await(service: "Deployment", started: "StartedWork", watch: bool) -> RoundReport | int:
    """Return the report, or the number of the round that failed."""
    from temporalio.client import WorkflowFailureError
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    client = await connect(service.settings)
    handle = client.get_workflow_handle(started.workflow, run_id=started.run or None, result_type=RoundReport)
    try:
        with progress_display(watch) as display:
            return await _wait(handle, service.db, display)
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


async def _wait(
    handle: "WorkflowHandle[Any, RoundReport]", db: "Database", display: ProgressDisplay | None
) -> RoundReport:
    """Return the report. While waiting, update the display, and warn once if no worker has taken the round."""
    from sexton.runtime.temporal.client import taken

    report = asyncio.ensure_future(handle.result())
    deadline = asyncio.get_running_loop().time() + WORKER_PATIENCE_SECONDS
    worker_checked = False
    while not (await asyncio.wait({report}, timeout=DISPLAY_SECONDS if display else WORKER_PATIENCE_SECONDS))[0]:
        if not worker_checked and asyncio.get_running_loop().time() >= deadline:
            worker_checked = True
            if not await taken(handle):
                typer.echo(
                    "no worker has taken the round yet; see: sexton doctor, or start one: sexton worker run", err=True
                )
        if display is not None:
            await _update(handle, db, display)
    return report.result()


async def _update(handle: "WorkflowHandle[Any, RoundReport]", db: "Database", display: ProgressDisplay) -> None:
    """Show the progress of the round. Without a worker no query is answered, and the last numbers stay."""
    from temporalio.client import WorkflowQueryFailedError, WorkflowQueryRejectedError
    from temporalio.service import RPCError

    from sexton.insight.progress import NOTHING, round_progress

    try:
        progress = await handle.query("progress", result_type=RoundProgress, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return
    counts = await asyncio.to_thread(round_progress, db, progress.round) if progress.round else NOTHING
    display.update(progress, counts)
