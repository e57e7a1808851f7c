"""Start a round, wait for its report, and tell a running one something."""

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Any

import typer

from sexton.interfaces.cli.context import ask_temporal
from sexton.interfaces.cli.progress import ProgressDisplay, watching
from sexton.kernel.errors import SextonError
from sexton.recycle.model import RecycleRequest, RoundProgress, RoundReport

if TYPE_CHECKING:
    from temporalio.client import WorkflowHandle

    from config.settings import Settings
    from sexton.database.engine import Database

LOOK_SECONDS = 0.5
WORKER_PATIENCE_SECONDS = 5.0
"""After this long without a report the operator hears whether any worker is there."""
QUERY_PATIENCE = dt.timedelta(seconds=2)


def run_round(settings: "Settings", db: "Database", request: RecycleRequest, *, watch: bool) -> RoundReport:
    """Run a round and return its report; that of a failed round comes from where it is stored.

    Ctrl-C ends the waiting, not the round.
    """
    from sexton.recycle.rounds.sql.reports import Reports

    ended = asyncio.run(_run(settings, db, request, watch))
    return ended if isinstance(ended, RoundReport) else Reports(db).report(ended)


def signal_round(settings: "Settings", instance: str, signal: str) -> int:
    """Signal the running round of an instance; return how many workers there are to heed it.

    Raises:
        SextonError: none is running, or Temporal cannot be reached.
    """
    from sexton.runtime.temporal.rounds import ROUNDS

    return ask_temporal(settings, lambda client: ROUNDS.signal(client, settings, instance, signal))


async def _run(settings: "Settings", db: "Database", request: RecycleRequest, watch: bool) -> RoundReport | int:
    """Start the workflow and wait for its report, or for the number of the round that failed."""
    from temporalio.client import WorkflowFailureError
    from temporalio.exceptions import ActivityError, ApplicationError
    from temporalio.exceptions import CancelledError as TemporalCancelled
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect
    from sexton.runtime.temporal.rounds import ROUNDS
    from workflows import ids

    handle = await ROUNDS.start(await connect(settings), settings, request)
    try:
        with watching(watch) as shown:
            return await _wait(handle, db, shown)
    except WorkflowFailureError as e:
        cause: BaseException | None = e.cause
        if isinstance(cause, ApplicationError) and cause.type == ids.ROUND_FAILED:
            return int(cause.details[0])
        if isinstance(cause, TemporalCancelled):
            raise SextonError(f"the round of {request.instance} was cancelled; see: sexton round list") from e
        if isinstance(cause, ActivityError):
            cause = cause.cause
        raise SextonError(str(getattr(cause, "message", cause) or e)) from e
    except RPCError as e:
        raise SextonError(f"lost Temporal ({e.message}); the round goes on when it is back: sexton status") from e
    except (asyncio.CancelledError, KeyboardInterrupt):
        end = f"sexton round cancel {request.instance}"
        typer.echo(f"the round goes on without us; see: sexton status; to end it: {end}", err=True)
        raise


async def _wait(
    handle: "WorkflowHandle[Any, RoundReport]", db: "Database", shown: ProgressDisplay | None
) -> RoundReport:
    """Return the report when it is there; meanwhile show how far the round is, and say once when no worker is there."""
    from sexton.runtime.temporal.client import taken

    waiting = asyncio.ensure_future(handle.result())
    patience = asyncio.get_running_loop().time() + WORKER_PATIENCE_SECONDS
    asked = False
    while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS if shown else WORKER_PATIENCE_SECONDS))[0]:
        if not asked and asyncio.get_running_loop().time() >= patience:
            asked = True
            if not await taken(handle):
                typer.echo("no worker has taken the round yet; see doctor, or start one: python -m worker", err=True)
        if shown is not None:
            await _look(handle, db, shown)
    return waiting.result()


async def _look(handle: "WorkflowHandle[Any, RoundReport]", db: "Database", shown: ProgressDisplay) -> None:
    """Show how far the round is; without a worker nobody answers, and the last numbers stay."""
    from temporalio.client import WorkflowQueryFailedError, WorkflowQueryRejectedError
    from temporalio.service import RPCError

    from sexton.insight.status import gone

    try:
        progress = await handle.query("progress", result_type=RoundProgress, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return
    rows = await asyncio.to_thread(gone, db, progress.round) if progress.round else {}
    shown.tell(progress, rows)
