"""Each of the five workflows obeys the signals that commands send, mid-work, and each signal is in the log of calls."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from config.settings import Settings
from sexton.check.model import CheckRequest
from sexton.deployment import Deployment
from sexton.interfaces.cli.operations import User
from sexton.kernel.errors import SextonError
from sexton.operations.registry import Call, operations
from sexton.recycle.rounds.model import RecycleRequest
from sexton.replication.binlog.messages import GcRequest
from sexton.runtime.temporal.control_client import ControlClient
from sexton.runtime.temporal.works import BINLOG_GCS, CHECKS, PURGE_ROUNDS, PURGES, ROUNDS
from sexton.wal.messages import PurgeRequest, PurgeRoundRequest
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import Topics, rig, settings, topics

__all__ = ["rig", "settings", "topics"]  # fixtures

COMMANDS: dict[str, ControlClient[Any, Any, Any]] = {
    control.command: control for control in (ROUNDS, CHECKS, PURGES, PURGE_ROUNDS, BINLOG_GCS)
}


@pytest.fixture
def service(topics: Topics, settings: Settings, temporal_server: DevServer) -> Deployment:
    temporal = settings.temporal.model_copy(update={"address": temporal_server.address})
    return Deployment(settings.model_copy(update={"temporal": temporal}), topics.rig.db)


def request_of(command: str, shop: str, topic: str) -> Any:
    return {
        "round": RecycleRequest(instance=shop, requested_by="test"),
        "check": CheckRequest(instance=shop, requested_by="test"),
        "wal": PurgeRequest(topic=topic, deployment=DEPLOYMENT, instance=shop, requested_by="test"),
        "wal round": PurgeRoundRequest(deployment=DEPLOYMENT, requested_by="test"),
        "binlog": GcRequest(deployment=DEPLOYMENT, instance=shop, requested_by="test"),
    }[command]


@pytest.mark.parametrize("last", ["resume", "cancel"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_commands_pause_resume_and_cancel_each_workflow(
    topics: Topics, service: Deployment, shop: str, tmp_path: Path, command: str, last: str
) -> None:
    topics.rig.instance(shop).local(tmp_path / "v", instance=shop)
    topic, control, client = topics.make(20, "r1"), COMMANDS[command], topics.served.client
    values = {"round": {"instance": shop}, "wal": {"topic": topic}, "wal round": {}}.get(command, {"instance": shop})

    def send(signal: str) -> object:
        return operations()[f"{command} {signal}"].run(Call(service, User(service)), values)

    request = request_of(command, shop, topic)
    handle = await client.start_workflow(
        control.workflow_type,
        request,
        id=control.workflow_id(DEPLOYMENT, control.subject(request)),
        task_queue=f"{DEPLOYMENT}/control",
        start_signal="pause",  # before its first step
    )
    await eventually_async(
        "the workflow is paused",
        lambda: control.progress(client, service.settings, control.subject(request)),
        lambda progress: progress.doing == "PAUSED",
    )
    for signal in ("retry", "pause", last):
        await asyncio.to_thread(send, signal)
    await handle.result()
    with pytest.raises(SextonError, match=r"is running"):
        await asyncio.to_thread(send, "cancel")

    calls = [(call.action, call.outcome) for call in service.stores.calls.last(10) if call.source.startswith("cli@")]
    sent = [(f"{command} {signal}", "ok") for signal in ("retry", "pause", last)]
    assert calls[::-1] == [*sent, (f"{command} cancel", "NOT_RUNNING")]
