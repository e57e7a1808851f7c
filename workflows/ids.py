"""Names of workflows and queues; every one begins with the deployment, so two deployments may share a namespace."""

RECYCLE = "recycle-instance"
"""Workflow type of a round."""
ROUND_FAILED = "RoundFailed"
"""Error type of a round that did not finish; its first detail is the round's number, its report is stored."""
LEASE_LOST = "LeaseLost"
"""Error type of an activity whose lease ran out: the class name of ``recycle.port.LeaseLost`` (tested)."""


def recycle(deployment: str, instance: str) -> str:
    """Return the workflow id of an instance's rounds: one at a time, however it was started."""
    return f"{deployment}/recycle/{instance}"


def control_queue(deployment: str) -> str:
    """Return the task queue of workflows and light activities."""
    return f"{deployment}/control"
