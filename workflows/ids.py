"""Names of workflows and queues; every one begins with the deployment, so two deployments may share a namespace."""


def recycle(deployment: str, instance: str) -> str:
    """Return the workflow id of an instance's rounds: one at a time, however it was started."""
    return f"{deployment}/recycle/{instance}"


def control_queue(deployment: str) -> str:
    """Return the task queue of workflows and light activities."""
    return f"{deployment}/control"
