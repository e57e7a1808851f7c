"""Temporal does what is requested, and its answer is lost: the caller is told, and a repetition does no harm."""

import asyncio
from collections.abc import Iterator

import grpc
import httpx
import pytest
from temporalio.client import Client

from sexton.runtime.temporal.observing import reached
from sexton.runtime.temporal.works import ROUNDS
from tests.integration.interfaces.api.shared import rig
from tests.servers.api import Api
from tests.servers.temporal import DevServer
from tests.servers.temporal_gateway import TemporalGateway
from tests.support.rig import DEPLOYMENT, Rig

__all__ = ["rig"]
START, PAUSE = "/v1/instances/shop/rounds", "/v1/instances/shop/rounds/running/pause"
ID = ROUNDS.workflow_id(DEPLOYMENT, "shop")


class Lossy:
    """An API whose calls of Temporal go through a gateway, and what Temporal has seen of its round."""

    def __init__(self, api: Api, gateway: TemporalGateway, server: DevServer) -> None:
        self.gateway, self._server, self._url = gateway, server, api.url
        self._token = api.token("admin")

    def post(self, path: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = httpx.post(self._url + path, headers=headers)
        return answer.status_code, answer.json().get("code", "")

    def signals(self) -> int:
        """Return how many signals the round has received."""

        async def count() -> int:
            history = await (await self._server.connect()).get_workflow_handle(ID).fetch_history()
            return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in history.events)

        return asyncio.run(count())

    def end_round(self) -> None:
        async def terminate() -> None:
            await (await self._server.connect()).get_workflow_handle(ID).terminate()

        asyncio.run(terminate())


@pytest.fixture(scope="module")
def lossy(temporal_server: DevServer, rig: Rig) -> Iterator[Lossy]:
    with (
        TemporalGateway(temporal_server.address) as gateway,
        Api(rig, temporal={"address": gateway.address}) as api,
    ):
        yield Lossy(api, gateway, temporal_server)


def test_a_round_whose_start_was_not_answered_is_started_once(lossy: Lossy) -> None:
    lost = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
    for status in (*lost, grpc.StatusCode.PERMISSION_DENIED):  # as the answer to a repetition by the SDK
        lossy.gateway.lost["StartWorkflowExecution"] = status
        first = lossy.post(START)
        lossy.gateway.lost.clear()
        second = lossy.post(START)
        lossy.end_round()

        assert (first, second) == ((503, "TEMPORAL_AWAY"), (409, "ALREADY_RUNNING"))


def test_a_worker_tells_whether_temporal_answers(lossy: Lossy) -> None:
    async def told() -> list[int]:
        client = await Client.connect(lossy.gateway.address)
        before = await reached(client)
        lossy.gateway.lost["GetSystemInfo"] = grpc.StatusCode.UNAVAILABLE
        without = await reached(client)
        lossy.gateway.lost.clear()
        return [state["reaches_temporal"] for state in (before, without, await reached(client))]

    assert asyncio.run(told()) == [True, False, True]


def test_a_signal_that_was_not_answered_may_be_repeated(lossy: Lossy) -> None:
    assert lossy.post(START)[0] == 200
    lossy.gateway.lost["SignalWorkflowExecution"] = grpc.StatusCode.DEADLINE_EXCEEDED
    first = lossy.post(PAUSE)
    lossy.gateway.lost.clear()
    second = lossy.post(PAUSE)
    signals = lossy.signals()
    lossy.gateway.lost["DescribeTaskQueue"] = grpc.StatusCode.INTERNAL  # no worker can be counted
    uncounted = lossy.post(PAUSE)
    lossy.gateway.lost.clear()
    lossy.end_round()

    assert (uncounted, lossy.signals()) == ((200, ""), 3)
    assert (first, second, signals) == ((503, "TEMPORAL_AWAY"), (200, ""), 2)
