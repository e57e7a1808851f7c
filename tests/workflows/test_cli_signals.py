"""Each of the five workflows obeys the signals that commands send, mid-work, and each signal is in the log of calls."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from config.settings import Settings
from sexton.check.model import CheckRequest
from sexton.interfaces.cli.operations import User
from sexton.kernel.errors import SextonError
from sexton.operations.registry import Call, operations
from sexton.recycle.rounds.model import RecycleRequest
from sexton.replication.binlog.model import GcRequest
from sexton.runtime.temporal.control_client import ControlClient
from sexton.runtime.temporal.works import BINLOG_GCS, CHECKS, PURGE_ROUNDS, PURGES, ROUNDS
from sexton.wal.messages import PurgeRequest, PurgeRoundRequest
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT
from tests.workflows.test_blockers import find, service
from tests.workflows.topics import Topics, settings, topics
from workflows import ids

__all__ = ["settings", "topics"]  # fixtures

COMMANDS: dict[str, ControlClient[Any, Any, Any]] = {
    control.command: control for control in (ROUNDS, CHECKS, PURGES, PURGE_ROUNDS, BINLOG_GCS)
}


def request_of(command: str, shop: str, topic: str) -> Any:
    return {
        "round": RecycleRequest(instance=shop, requested_by="test"),
        "check": CheckRequest(instance=shop, requested_by="test"),
        "wal": PurgeRequest(topic=topic, deployment=DEPLOYMENT, instance=shop, requested_by="test"),
        "wal round": PurgeRoundRequest(deployment=DEPLOYMENT, requested_by="test"),
        "binlog": GcRequest(deployment=DEPLOYMENT, instance=shop, requested_by="test"),
    }[command]


PAUSED = {
    "round": ("round of {shop}", "sexton round resume {shop}"),  # it has no row yet, which would say so
    "check": ("check of {shop}", "sexton check resume {shop}"),
    "wal": ("purge of topic {topic}", "sexton wal resume {topic}"),
    "wal round": ("round of topics", "sexton wal round resume"),
    "binlog": ("binlog GC of {shop}", "sexton binlog resume {shop}"),
}
"""Group of commands → what the list of blockers calls its paused workflow, and the way out."""


async def test_commands_pause_resume_and_cancel_each_workflow(
    topics: Topics, settings: Settings, temporal_server: DevServer, shop: str, tmp_path: Path
) -> None:
    topics.rig.instance(shop).local(tmp_path / "v", instance=shop)
    topic, client = topics.make(20, "r1"), topics.served.client
    deployment = service(topics.rig, settings, temporal_server.address, DEPLOYMENT)

    async def send(command: str, signal: str) -> None:
        values = {"wal": {"topic": topic}, "wal round": {}}.get(command, {"instance": shop})
        await asyncio.to_thread(operations()[f"{command} {signal}"].run, Call(deployment, User(deployment)), values)

    for command, control in COMMANDS.items():
        before, request = deployment.stores.calls.newest(), request_of(command, shop, topic)
        for last in ("resume", "cancel"):
            handle = await client.start_workflow(
                control.workflow_type,
                request,
                id=control.workflow_id(DEPLOYMENT, control.subject(request)),
                task_queue=ids.control_queue(DEPLOYMENT),
                start_signal="pause",  # before its first step
            )
            await eventually_async(
                "the workflow is paused",
                lambda c=control, r=request: c.progress(client, deployment.settings, c.subject(r)),
                lambda progress: progress.doing == "PAUSED",
            )
            what, way_out = (words.format(shop=shop, topic=topic) for words in PAUSED[command])
            # Temporal lists a run some moments after its start, and an earlier one some moments after its end.
            rows = await eventually_async(
                "the run is named",
                lambda: find(deployment),
                lambda rows, what=what: "paused" in rows and rows["paused"].what == what,
            )
            for signal in ("retry", "pause", last):
                await send(command, signal)
            await handle.result()

            assert (rows["paused"].way_out, "no worker" in rows) == (way_out, False)
            of = {"wal": "shop", "wal round": "(all)"}  # a topic's row names its instance
            assert rows["paused"].instance == of.get(command, shop)
        with pytest.raises(SextonError, match=r"is running"):
            await send(command, "cancel")

        calls = [(c.action, c.outcome) for c in deployment.stores.calls.rows(before, 99) if c.source.startswith("cli@")]
        sent = [(f"{command} {signal}", "ok") for last in ("resume", "cancel") for signal in ("retry", "pause", last)]
        assert [call for call in calls if call[1] != "asked"] == [*sent, (f"{command} cancel", "NOT_RUNNING")]
