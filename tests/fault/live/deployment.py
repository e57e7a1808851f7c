"""A deployment under real conditions: a database, a Temporal namespace of its own, and worker processes."""

import asyncio
import os
import signal
import uuid
from pathlib import Path
from typing import Any, Self

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.recycle.model import RoundReport
from sexton.runtime.temporal.client import CONVERTER
from tests.fault.live.store import Bucket
from tests.servers.fault_proxy import FaultProxy
from tests.servers.forked import Forked
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig
from tests.workflows.conftest import Served

ROOT = Path(__file__).parents[3]
SHOP = "shop"
"""The one instance of a rig."""


class WorkerProcess(Forked):
    """A process of ``sexton worker run``, or of the worker that dies at a crash point."""

    def __init__(self, name: str, home: Path, env: dict[str, str], dies_at: str | None, role: str) -> None:
        command = ("sexton", "worker", "run", "--role", role)
        module, *arguments = ("tests.fault.live.dying_worker", dies_at) if dies_at else command
        super().__init__(name, module, arguments, home, env)

    async def serve(self) -> None:
        """Start the process and wait until it polls."""
        await asyncio.to_thread(self.start, lambda: "is polling" in self.log.read_text())

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)


class Deployment:
    """A rig, a Temporal client, a store that can fail, and worker processes, which end with it."""

    def __init__(
        self, rig: Rig, client: Client, home: Path, cold: Bucket, proxy: FaultProxy, starts: asyncio.Semaphore
    ) -> None:
        self.rig, self.client, self.cold, self.proxy = rig, client, cold, proxy
        self._home, self._starts = home, starts
        self._workers: list[WorkerProcess] = []

    @classmethod
    async def open(cls, address: str, namespace: str, *parts: Any) -> Self:
        """Connect to a namespace; without a name, register a new one, so that deployments of one name never meet."""
        name = namespace or uuid.uuid4().hex
        client = await Client.connect(address, namespace=name, data_converter=CONVERTER)
        if not namespace:
            retention = Duration(seconds=86_400)
            await client.workflow_service.register_namespace(
                RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
            )

            async def known() -> bool:
                """Return whether the server's own list of namespaces has it: it refreshes the list now and then."""
                try:
                    await client.count_workflows()
                except RPCError as e:
                    if e.status is not RPCStatusCode.NOT_FOUND:
                        raise
                    return False
                return True

            await eventually_async("Temporal knows the namespace", known)
        rig, *rest = parts
        return cls(rig, client, *rest)

    def close(self) -> list[str]:
        """Kill every process; return the last lines of each log."""
        lines = []
        for process in self._workers:
            process.kill()
            lines += [f"── {process.name}, exit code {process.exit_code()}", *process.tail(40)]
        self.rig.db.close()
        return lines

    async def worker(
        self, name: str, *, dies_at: str | None = None, role: str = "control", **settings: object
    ) -> WorkerProcess:
        """Start a worker process that polls, with settings such as ``RECYCLE__RECYCLE_CONCURRENCY=1``."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("SEXTON_")}
        env |= {
            "PYTHONPATH": str(ROOT),
            "SEXTON_HOME": str(self._home),
            "SEXTON_DEPLOYMENT": DEPLOYMENT,
            "SEXTON_DATABASE_URL": self.rig.url,
            "SEXTON_TEMPORAL__ADDRESS": self.client.service_client.config.target_host,
            "SEXTON_TEMPORAL__NAMESPACE": self.client.namespace,
            "SEXTON_S3__ENDPOINT_URL": self.rig.endpoint_url,
            # One page at a time: a test knows the page of its fault, and concurrent tests do not flood the store.
            "SEXTON_RECYCLE__INSTANCE_RECYCLER_WORKER_POOL_SIZE": "1",
        }
        env |= {f"SEXTON_{k}": str(v) for k, v in settings.items()}
        process = WorkerProcess(name, self._home, env, dies_at, role)
        self._workers.append(process)
        async with self._starts:
            await process.serve()
        return process

    async def worker_in_process(self) -> Worker:
        """Return a worker of this process that does not run yet; it is cheaper than another process."""
        settings = Settings(deployment=DEPLOYMENT, database_url=self.rig.url)
        return await control.build(self.client, settings, self.rig.db)

    async def start(self) -> WorkflowHandle[Any, RoundReport]:
        """Start a round."""
        return await Served(self.rig, self.client).start(SHOP)

    async def round(self) -> RoundReport:
        """Start a round and return its report."""
        return await (await self.start()).result()

    def reports(self) -> list[RoundReport]:
        """Return every stored report, newest first."""
        return list(self.rig.rounds.reports.find_round(SHOP, last=100))
