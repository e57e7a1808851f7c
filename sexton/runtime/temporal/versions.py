"""The builds of a deployment's workers, as Temporal knows them: which takes new workflows, and which still run some.

With ``temporal.worker_versioning`` only workers of the current build get tasks of workflows; one that runs moves there
with its next step, so it must replay on both builds, as without versioning. Then every worker takes every task.
"""

import asyncio
import importlib.metadata
import logging
import time
from enum import StrEnum

from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import WorkerDeploymentConfig

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.runtime.temporal.client import Build, WorkflowQueue, workflow_queue

log = logging.getLogger(__name__)
CHECK_SECONDS = 1.0
PROMOTION_SECONDS = 60.0
NOT_YET = (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE)
"""Answers to a promotion that change when the new workers have begun to poll every queue of the current build."""


class BuildState(StrEnum):
    """What Temporal does with a build of workers."""

    CURRENT = "CURRENT"
    """Workflows begin and continue on it."""
    DRAINING = "DRAINING"
    """It was current until lately; its workers may still be asked."""
    DRAINED = "DRAINED"
    """Nothing runs on it: its workers may be stopped."""
    INACTIVE = "INACTIVE"
    """It was never current."""
    OTHER = "OTHER"


STATES = {
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT: BuildState.CURRENT,
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING: BuildState.DRAINING,
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED: BuildState.DRAINED,
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_INACTIVE: BuildState.INACTIVE,
}


class WorkerBuild(Message):
    """One build of a deployment's workers."""

    build: str
    state: BuildState


def build_of(settings: Settings) -> str:
    """Return the build of this process: that of the settings, or the version of the installed package."""
    if settings.temporal.build_id:
        return settings.temporal.build_id
    try:
        return importlib.metadata.version("sexton")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def deployment_config(settings: Settings) -> WorkerDeploymentConfig:
    """Return what every worker of this process reports; it takes tasks of its own build only with versioning."""
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.require_deployment(), build_of(settings)),
        use_worker_versioning=settings.temporal.worker_versioning,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE
        if settings.temporal.worker_versioning
        else VersioningBehavior.UNSPECIFIED,
    )


async def builds(client: Client, settings: Settings) -> list[WorkerBuild]:
    """Return the builds that Temporal knows; none where no worker with versioning ever ran."""
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=settings.require_deployment())
    try:
        # Temporal limits how often this may be asked in a second; the library then asks again.
        described = await client.workflow_service.describe_worker_deployment(request, retry=True)
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            return []
        raise SextonError(f"Temporal did not describe the builds of workers: {e.message}") from e
    return [
        WorkerBuild(build=version.deployment_version.build_id, state=STATES.get(version.status, BuildState.OTHER))
        for version in described.worker_deployment_info.version_summaries
    ]


async def promote(client: Client, settings: Settings, build: str) -> None:
    """Make a build current: workflows begin on it alone, and running ones move to it with their next step.

    Temporal refuses while the new workers do not poll every queue that those of the current build poll. This waits for
    them, and for the first of them, 60 s at most.

    Raises:
        SextonError: no worker of the build runs, its workers lack a queue, or Temporal refuses.
    """
    deployment = settings.require_deployment()
    if build not in {known.build for known in await builds(client, settings)}:
        raise SextonError(
            f"no worker of build {build} ever ran with temporal.worker_versioning in {deployment}; see: "
            "sexton worker builds"
        )
    last_try = time.monotonic() + PROMOTION_SECONDS
    while refusal := await _refusal(client, deployment, build, await workflow_queue(client, settings)):
        if time.monotonic() > last_try:
            raise SextonError(f"build {build} did not become current: {refusal}")
        await asyncio.sleep(CHECK_SECONDS)


async def _refusal(client: Client, deployment: str, build: str, queue: WorkflowQueue) -> str:
    """Make a build current, and return an empty text; or return why that is not possible yet."""
    if Build(deployment, build) not in queue.pollers:
        return "none of its workers polls, so no workflow would go on; start one: sexton worker run"
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name=deployment, build_id=build, identity=client.identity
    )
    no_ramp = SetWorkerDeploymentRampingVersionRequest(
        namespace=client.namespace, deployment_name=deployment, identity=client.identity
    )
    try:
        await client.workflow_service.set_worker_deployment_current_version(request)
        if queue.ramping not in (None, Build(deployment, build)):
            await client.workflow_service.set_worker_deployment_ramping_version(no_ramp)
    except RPCError as e:
        if e.status in NOT_YET:
            return e.message
        raise SextonError(f"Temporal refused to make build {build} current: {e.message}") from e
    return ""


def explain_no_tasks(queue: WorkflowQueue) -> str:
    """Return why workflows get no worker although some poll; empty where they get one, or none polls."""
    if not queue.pollers:
        return ""
    if (ramping := queue.ramping) is not None and ramping not in queue.pollers:
        name = ramping.build or "no build"
        return f"Temporal gives some workflows to workers of {name} alone (ramping), and none of them polls"
    if queue.current in queue.pollers:
        return ""
    if not queue.current.build:
        return "no build of workers is current, so Temporal gives work to none of those that poll"
    others = ", ".join(sorted({poller.build or "no build" for poller in queue.pollers}))
    return (
        f"Temporal gives work to build {queue.current.build} of {queue.current.deployment} alone, and only workers of "
        f"{others} poll"
    )


def way_out(queue: WorkflowQueue) -> str:
    """Return what to do where ``explain_no_tasks`` has a reason; a command without a build would promote its own."""
    polling = sorted({poller.build for poller in queue.pollers if poller.build})
    promote = f"sexton worker promote {' or '.join(polling) or 'BUILD'}"
    return f"start workers of that build, or: {promote}" if queue.current.build else promote


async def promote_first(client: Client, settings: Settings) -> None:
    """Make this process' build current if no build is: until then Temporal would give no task to any worker.

    A worker whose build is not current logs it once, with the command that makes it current.
    """
    own = build_of(settings)
    while True:
        try:
            known = {build.build: build.state for build in await builds(client, settings)}
            current = next((build for build, state in known.items() if state is BuildState.CURRENT), "")
            if current and current != own:
                text = "new workflows begin on build %s, not on %s; to change it: sexton worker promote %s"
                log.info(text, current, own, own)
            if current:
                return
            if own in known:  # Temporal knows it once this worker has polled
                await promote(client, settings, own)
                log.info("no build was current: build %s is now", own)
                return
        except SextonError as e:
            log.warning("%s; it is tried again", e)
        await asyncio.sleep(CHECK_SECONDS)
