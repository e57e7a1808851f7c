"""All workflows, which a control worker serves, and the sandbox that they run in, in workers and in replays."""

import pkgutil

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import activities
import sexton
import workflows
from workflows.binlog import GcBinlog
from workflows.check import CheckInstance
from workflows.purge import PurgeWal
from workflows.purge_round import PurgeWalRound
from workflows.recycle import RecycleInstance
from workflows.tick import RecycleTick

ALL = [RecycleInstance, RecycleTick, CheckInstance, PurgeWal, PurgeWalRound, GcBinlog]


def sandbox() -> SandboxedWorkflowRunner:
    """Return the sandboxed runner, which executes only the module of a workflow again for each one that it creates.

    Sexton's own pure modules pass through, and what the workflows share: it keeps no state between them.
    """
    # Each by its name: in an installed wheel these workflows are below sexton, too, and must not pass.
    own = {f"{sexton.__name__}.{module.name}" for module in pkgutil.iter_modules(sexton.__path__)} - {__package__}
    shared = {f"{__package__}.{module.name}" for module in pkgutil.iter_modules(workflows.__path__)}
    shared -= {workflow.__module__ for workflow in ALL}
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*own, *shared, activities.__name__, "pydantic")
    return SandboxedWorkflowRunner(restrictions=restrictions)
