"""The sandbox that workflows run in, in workers and in replays."""

import pkgutil

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import activities
import sexton


def runner() -> SandboxedWorkflowRunner:
    """Return the sandboxed runner. Sexton's own pure modules pass through: a small workflow needs a third less CPU."""
    # Each by its name: in an installed wheel these workflows are below sexton, too, and must not pass.
    own = {f"{sexton.__name__}.{module.name}" for module in pkgutil.iter_modules(sexton.__path__)} - {__package__}
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*own, activities.__name__, "pydantic")
    return SandboxedWorkflowRunner(restrictions=restrictions)
