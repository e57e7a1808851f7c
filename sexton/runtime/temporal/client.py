"""Connect to Temporal, and count the workers that poll: a round without one waits permanently."""

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Coroutine
from typing import Any, NamedTuple, NoReturn

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import PydanticPayloadConverter, ToJsonOptions
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.kernel.extras import missing_extra
from sexton.runtime.temporal import tracing
from sexton.runtime.temporal.connection import connection, explain_failure
from sexton.runtime.temporal.log_context import LogContext
from workflows import ids


class PayloadConverter(PydanticPayloadConverter):
    """Writes values by the names of their fields, not with those that users see in JSON.

    A worker of an older version may read them, and knows no newer name. Without options the SDK writes aliases. It
    makes a converter without arguments.
    """

    def __init__(self) -> None:
        super().__init__(ToJsonOptions(exclude_unset=False))


CONVERTER = DataConverter(payload_converter_class=PayloadConverter)


async def connect(settings: Settings, runtime: Runtime | None = None) -> Client:
    """Return a client; raise a ``SextonError`` that says what to do where no server answers or admits it.

    ``runtime``: of the SDK; None: its default one.

    The namespace is looked up, too: without one Temporal answers that no schedule exists and that no round runs, and a
    worker ends with a traceback.
    """
    to = connection(settings.temporal)
    try:
        client = await Client.connect(
            to.address,
            namespace=to.namespace,
            tls=to.tls,
            api_key=to.api_key,
            rpc_metadata=to.headers,
            data_converter=CONVERTER,
            interceptors=[*tracing.interceptors(settings), LogContext()],
            runtime=runtime,
        )
    except (RuntimeError, ValueError) as e:
        raise SextonError(explain_failure(to, str(e))) from e
    request = DescribeNamespaceRequest(namespace=to.namespace)
    try:
        await client.workflow_service.describe_namespace(request, retry=True)
    except RPCError as e:
        fault, way_out = "does not describe", "let this login describe it"
        if e.status is RPCStatusCode.NOT_FOUND:
            fault = "has no"
            way_out = f"create it (temporal operator namespace create --namespace {to.namespace})"
        raise SextonError(
            f"Temporal at {to.address} {fault} namespace {to.namespace} for this program ({e.message}); {way_out}, or "
            "set SEXTON_TEMPORAL__NAMESPACE"
        ) from e
    return client


def run(main: Coroutine[Any, Any, None]) -> NoReturn:
    """Run a program that uses Temporal to its end, print its error if it fails, then exit the process at once.

    It skips the interpreter's own exit, in which Temporal's threads can abort after the work is done (sdk-python #300).
    """
    code = 1
    try:
        asyncio.run(main)
        code = 0
    except SextonError as e:
        sys.stderr.write(f"error: {e}\n")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as e:  # noqa: BLE001  # printed; the interpreter's own exit must not run
        missing = missing_extra(e) if isinstance(e, ModuleNotFoundError) else ""
        sys.stderr.write(f"error: {missing}\n" if missing else traceback.format_exc())
    tracing.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended before it handled signals."""
POLL_SECONDS = 70
"""A poller that was seen within this time counts as running; each polls again at least once a minute."""


async def taken(handle: WorkflowHandle[Any, Any]) -> bool:
    """Return whether a worker has taken the workflow: until then its history is its start and a scheduled task."""
    return (await handle.describe()).history_length > 2


class Build(NamedTuple):
    """A build of workers that take only tasks of their own build; both empty: workers without versioning."""

    deployment: str = ""
    build: str = ""


class WorkflowQueue(NamedTuple):
    """The builds of the workers that polled a deployment's workflow queue lately, and the build that gets its tasks.

    ``ramping``: a build that gets some of its workflows instead; None: there is none.
    """

    pollers: tuple[Build, ...]
    current: Build
    ramping: Build | None = None


async def workflow_queue(client: Client, settings: Settings) -> WorkflowQueue:
    """Return who polls this deployment's workflow queue. Temporal lists a worker some moments after its start."""
    try:
        described = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=ids.control_queue(settings.require_deployment())),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            )
        )
    except RPCError as e:
        raise SextonError(f"Temporal did not list the workers that poll: {e.message}") from e
    # Temporal remembers pollers for minutes after they have stopped.
    oldest = time.time() - POLL_SECONDS
    reported = [p.deployment_options for p in described.pollers if p.last_access_time.seconds >= oldest]
    versioned = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    versioning = described.versioning_info
    current, ramping = versioning.current_deployment_version, versioning.ramping_deployment_version
    return WorkflowQueue(
        tuple(
            Build(o.deployment_name, o.build_id) if o.worker_versioning_mode == versioned else Build() for o in reported
        ),
        Build(current.deployment_name, current.build_id),
        Build(ramping.deployment_name, ramping.build_id) if versioning.ramping_version_percentage > 0 else None,
    )


async def pollers(client: Client, settings: Settings) -> int:
    """Return how many workers have polled this deployment's workflow queue recently, of whatever build."""
    return len((await workflow_queue(client, settings)).pollers)
