"""The health of a Temporal worker: its event loop, its database, and whether it polls Temporal."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.worker import Worker

from sexton.database.engine import Database
from sexton.insight.health import Health, LoopWatch, database_check
from sexton.kernel.errors import SextonError

ANSWER = timedelta(seconds=2)


def worker_health(client: Client, workers: Sequence[Worker], db: Database, deployment: str) -> Health:
    """Return the health of the process whose running event loop runs these workers."""
    loop = asyncio.get_running_loop()

    def polls_temporal() -> None:
        if not all(worker.is_running for worker in workers):
            raise SextonError("the worker does not poll: it starts or ends")
        call = client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=ANSWER)
        asyncio.run_coroutine_threadsafe(call, loop).result(ANSWER.total_seconds() + 1)

    return Health(
        live={"event_loop": LoopWatch(loop).check},
        ready={"database": database_check(db, deployment), "temporal": polls_temporal},
    )
