"""The worker beside a storage node, which deletes the node's binlogs."""

from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings
from sexton.interfaces.worker.slots import slots
from workflows import ids

if TYPE_CHECKING:
    from sexton.replication.agent.sweeping import BackendSweeper


def build_backend(client: Client, settings: Settings, backend: str, sweeper: "BackendSweeper") -> Worker:
    """Return a worker beside one storage node; it opens none of Sexton's databases."""
    return Worker(
        client,
        task_queue=ids.backend_queue(settings.require_deployment(), backend),
        activities=[activities.BackendActivities(sweeper).sweep_cuts],
        **slots(settings, 1),
    )
