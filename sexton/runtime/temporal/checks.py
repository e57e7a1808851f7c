"""Start a check that somebody asked for, and end one."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.check.model import CheckReport, CheckRequest
from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.waiting import Words, ended
from workflows import ids


async def start(client: Client, settings: Settings, request: CheckRequest) -> WorkflowHandle[Any, CheckReport]:
    """Start the workflow of a check and return its handle.

    Raises:
        SextonError: the instance is being checked, or Temporal refuses.
    """
    deployment = settings.require_deployment()
    try:
        return await client.start_workflow(
            ids.CHECK,
            request,
            id=ids.check(deployment, request.instance),
            task_queue=ids.control_queue(deployment),
            result_type=CheckReport,
            static_summary=f"check {request.instance}, by hand",
        )
    except WorkflowAlreadyStartedError as e:
        raise SextonError(
            f"{request.instance} is being checked already; see: sexton check list {request.instance}"
        ) from e
    except RPCError as e:
        raise SextonError(f"Temporal refused the check: {e.message}") from e


def run_check(settings: Settings, request: CheckRequest, tell: Callable[[str], None]) -> CheckReport:
    """Run a check and return its report; ``tell`` is told what a person should know. Ctrl-C ends the waiting."""
    return asyncio.run(_run(settings, request, tell))


async def cancel_check(client: Client, settings: Settings, instance: str) -> None:
    """End the running check of an instance; ``SextonError`` where none runs."""
    handle = client.get_workflow_handle(ids.check(settings.require_deployment(), instance))
    none = f"no check of {instance} is running; see: sexton check list {instance}"
    try:
        # Temporal takes the cancel of one that has ended, and does nothing.
        if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
            raise SextonError(none)
        await handle.cancel()
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise SextonError(none) from e
        raise


async def _run(settings: Settings, request: CheckRequest, tell: Callable[[str], None]) -> CheckReport:
    handle = await start(await connect(settings), settings, request)
    name = request.instance
    words = Words(f"the check of {name}", "sexton check list", f"sexton check cancel {name}")
    return await ended(handle, words, tell)
