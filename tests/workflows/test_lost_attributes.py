"""A namespace that loses a search attribute starts nothing for the schedule: doctor and blockers say what to do."""

import asyncio
import uuid
from contextlib import suppress

import pytest
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.client import Client

from config.settings import Settings
from sexton.interfaces.cli.doctor.surroundings import examine_temporal
from sexton.runtime.temporal import schedules, search_attributes
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import Rig
from tests.workflows.test_blockers import find, service
from workflows.search_attributes import REQUESTED_BY


async def until_described(client: Client, deployment: str) -> list[schedules.ScheduleInfo]:
    """Wait until Temporal knows the attributes again, some seconds after they were registered."""

    async def described() -> list[schedules.ScheduleInfo]:
        with suppress(schedules.AttributesMissing):
            return await schedules.describe(client, deployment)
        return []

    return await eventually_async("the schedule is described again", described)


@pytest.mark.slow
async def test_lost_attribute_of_the_schedule_is_named(
    rig: Rig, settings: Settings, temporal_server: DevServer
) -> None:
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    at, client = service(rig, settings, temporal_server.address, deployment), await temporal_server.connect()
    await search_attributes.register(client)
    await schedules.apply(client, at.settings)
    removal = RemoveSearchAttributesRequest(namespace=client.namespace, search_attributes=[REQUESTED_BY.name])
    await client.operator_service.remove_search_attributes(removal)
    try:
        rows = await find(at)
        findings = await asyncio.to_thread(lambda: list(examine_temporal(at.settings)))
    finally:
        await search_attributes.register(client)
        known = await until_described(client, deployment)
        await schedules.handle(client, deployment).delete()

    assert REQUESTED_BY.name in rows["search attributes"].why
    assert rows["search attributes"].way_out == "sexton schedules apply"
    broken = next(finding for finding in findings if finding.state == "FAIL" and REQUESTED_BY.name in finding.detail)
    assert broken.todo == "sexton schedules apply"
    assert len(known) == 1
