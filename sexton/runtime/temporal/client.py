"""Reach Temporal from a command, and see whether any worker is there: a round without one waits for ever."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Coroutine
from typing import Any, NoReturn

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from workflows import ids

log = logging.getLogger(__name__)


async def connect(settings: Settings) -> Client:
    """Return a client, or raise ``SextonError`` that says how to get a server."""
    temporal = settings.temporal
    try:
        return await Client.connect(
            temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
        )
    except RuntimeError as e:
        raise SextonError(f"cannot reach Temporal at {temporal.address}; start it: sexton up, or see doctor") from e


def run(main: Coroutine[Any, Any, None]) -> NoReturn:
    """Run a program that uses Temporal to its end, and leave at once.

    Without the interpreter's own exit: Temporal's threads can abort there after the work is done (sdk-python #300).
    """
    asyncio.run(main)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


POLL_SECONDS = 70


async def taken(handle: WorkflowHandle[Any, Any]) -> bool:
    """Return whether a worker has begun with the workflow; before, its history is start and a scheduled task."""
    return (await handle.describe()).history_length > 2


async def pollers(client: Client, settings: Settings, *, spark: bool = False) -> int:
    """Return how many workers polled this deployment's queue for workflows lately, or the one for Spark's work."""
    try:
        return await _pollers(client, settings, spark=spark)
    except RPCError as e:
        raise SextonError(f"Temporal does not say who polls: {e.message}") from e


async def spark_queue(client: Client, settings: Settings) -> str:
    """Return where this deployment's Spark workers poll; empty where none polled lately.

    Where Temporal does not say, it is worth trying.
    """
    try:
        polled = await pollers(client, settings, spark=True) > 0
    except SextonError as e:
        log.warning("%s; a Spark worker is waited for", e)
        polled = True
    return ids.spark_queue(settings.require_deployment()) if polled else ""


async def _pollers(client: Client, settings: Settings, *, spark: bool) -> int:
    deployment, kinds = settings.require_deployment(), TaskQueueType
    queue = ids.spark_queue(deployment) if spark else ids.control_queue(deployment)
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=settings.temporal.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=kinds.TASK_QUEUE_TYPE_ACTIVITY if spark else kinds.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    # Temporal remembers pollers for minutes after they stopped; one that lives polls anew at least once a minute.
    edge = time.time() - POLL_SECONDS
    return sum(1 for p in described.pollers if p.last_access_time.seconds >= edge)
