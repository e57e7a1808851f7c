"""Workflows have search attributes; a namespace that loses one starts nothing for the schedule, and doctor says so."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from config.settings import Settings
from sexton.check.model import CheckRequest
from sexton.contract import NewMark
from sexton.interfaces.cli.doctor.surroundings import examine_temporal
from sexton.recycle.rounds.model import RecycleRequest
from sexton.replication.binlog.model import GcRequest
from sexton.runtime.embedded.up import WITHOUT_TICKS
from sexton.runtime.temporal import schedules, search_attributes
from sexton.runtime.temporal.client import CONVERTER
from sexton.runtime.temporal.works import BINLOG_GCS, CHECKS, PURGE_ROUNDS, PURGES, ROUNDS
from sexton.wal.messages import PurgeRequest, PurgeRoundRequest
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig, put
from tests.workflows.test_blockers import find, service
from tests.workflows.topics import LAG, Topics, settings, topics
from workflows import ids
from workflows.search_attributes import ALL, CAPABILITY, INSTANCE, REQUESTED_BY, STATE, Capability, at_start
from workflows.search_attributes import DEPLOYMENT as DEPLOYMENT_KEY

__all__ = ["settings", "topics"]  # fixtures


async def listed(client: Client, query: str, types: set[str]) -> Mapping[str, WorkflowExecution]:
    """Wait until a list by a query has an ended workflow of each type; return the newest of each."""

    async def found() -> dict[str, WorkflowExecution]:
        newest: dict[str, WorkflowExecution] = {}
        async for execution in client.list_workflows(f"{query} AND ExecutionStatus = 'Completed'"):
            newest.setdefault(execution.workflow_type, execution)
        return newest

    return await eventually_async(f"the list by {query} has all", found, lambda newest: newest.keys() == types)


async def description(client: Client, execution: WorkflowExecution) -> WorkflowExecutionDescription:
    return await client.get_workflow_handle(execution.id, run_id=execution.run_id).describe()


def fill(topics: Topics, root: Path) -> str:
    """Give the instance a due mark and a topic with a region that should flush; return the topic."""
    rig = topics.rig.instance("shop")
    place = rig.local(root)
    put(place, "a.dat")
    rig.mark("dropped", NewMark(id="m1", vault="disk", keys=("a.dat",)))
    topic = topics.make(2 * LAG, "r1")  # a round starts a purge of its own for it
    topics.wal.purger.preview([topic])
    topics.flushed(topic, "r1", 9)
    rig.later(10_801)
    return topic


@pytest.mark.slow
async def test_workflows_by_hand_are_found_by_instance(topics: Topics, settings: Settings, tmp_path: Path) -> None:
    topic, client, who = fill(topics, tmp_path / "v"), topics.served.client, f"anna-{uuid.uuid4().hex[:8]}"
    await search_attributes.register(client)
    started = [
        await ROUNDS.start(client, settings, RecycleRequest(instance="shop", requested_by=who)),
        await CHECKS.start(client, settings, CheckRequest(instance="shop", requested_by=who)),
        await PURGES.start(
            client, settings, PurgeRequest(topic=topic, deployment=DEPLOYMENT, instance="shop", requested_by=who)
        ),
        await BINLOG_GCS.start(client, settings, GcRequest(deployment=DEPLOYMENT, instance="shop", requested_by=who)),
        await PURGE_ROUNDS.start(client, settings, PurgeRoundRequest(deployment=DEPLOYMENT, requested_by=who)),
    ]
    for handle in started:
        await handle.result()

    of_shop = {ids.RECYCLE, ids.CHECK, ids.PURGE_WAL, ids.GC_BINLOG}
    found = await listed(client, f"SextonInstance = 'shop' AND SextonRequestedBy = '{who}'", of_shop)
    every = await listed(client, f"SextonRequestedBy = '{who}'", of_shop | {ids.PURGE_WAL_ROUND})
    ends = {name: await description(client, execution) for name, execution in every.items()}

    assert {name: d.typed_search_attributes.get(CAPABILITY) for name, d in ends.items()} == {
        ids.RECYCLE: "recycle",
        ids.CHECK: "check",
        ids.PURGE_WAL: "wal",
        ids.PURGE_WAL_ROUND: "wal",
        ids.GC_BINLOG: "binlog",
    }
    assert {d.typed_search_attributes.get(DEPLOYMENT_KEY) for d in ends.values()} == {DEPLOYMENT}
    assert {name: d.typed_search_attributes.get(STATE) for name, d in ends.items()} == {
        ids.RECYCLE: "SUCCEEDED",
        ids.CHECK: "PARTIAL",
        ids.PURGE_WAL: "PURGED",
        ids.PURGE_WAL_ROUND: "ENDED",
        ids.GC_BINLOG: "ENDED",
    }
    assert {name: await d.static_summary() for name, d in ends.items()} == {
        ids.RECYCLE: "recycle shop, by hand",
        ids.CHECK: "check shop, by hand",
        ids.PURGE_WAL: f"purge topic {topic}, by hand",
        ids.PURGE_WAL_ROUND: "purge topics, by hand",
        ids.GC_BINLOG: "binlogs of shop, by hand",
    }
    details = {name: await started_details(client, execution) for name, execution in found.items()}
    assert "round 1" in details[ids.RECYCLE]
    assert "check 1" in details[ids.CHECK]
    assert topic in details[ids.PURGE_WAL]
    assert "records: 0" in details[ids.GC_BINLOG]


async def started_details(client: Client, execution: WorkflowExecution) -> str:
    """Return the current details, as the Temporal UI asks for them."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    metadata = await handle.query("__temporal_workflow_metadata")
    return str(metadata.current_details)


@pytest.mark.slow
async def test_scheduled_workflows_inherit_the_attributes(topics: Topics, settings: Settings, tmp_path: Path) -> None:
    topic, client = fill(topics, tmp_path / "v"), topics.served.client
    await search_attributes.register(client)
    assert await schedules.apply(client, settings) in ("created", "updated", "unchanged")
    try:
        await schedules.handle(client, DEPLOYMENT).trigger()
        query = f"SextonRequestedBy = '{ids.SCHEDULED}' AND SextonDeployment = '{DEPLOYMENT}'"
        types = {ids.TICK, ids.RECYCLE, ids.CHECK, ids.PURGE_WAL, ids.PURGE_WAL_ROUND}
        found = await listed(client, query, types)
        await listed(client, f"{query} AND {WITHOUT_TICKS}", types - {ids.TICK})  # the link of `sexton up`
    finally:
        await schedules.handle(client, DEPLOYMENT).delete()
    ends = {name: await description(client, execution) for name, execution in found.items()}

    assert {name: d.typed_search_attributes.get(INSTANCE) for name, d in ends.items()} == {
        ids.TICK: "",
        ids.RECYCLE: "shop",
        ids.CHECK: "shop",
        ids.PURGE_WAL: "shop",
        ids.PURGE_WAL_ROUND: "",
    }
    assert {d.typed_search_attributes.get(REQUESTED_BY) for d in ends.values()} == {ids.SCHEDULED}
    assert await ends[ids.PURGE_WAL].static_summary() == f"purge topic {topic}, scheduled"


async def test_a_child_has_no_attribute_that_its_parent_lacks(topics: Topics, tmp_path: Path) -> None:
    topic, client = fill(topics, tmp_path / "v"), topics.served.client
    await search_attributes.register(client)
    round_ = await client.start_workflow(
        ids.PURGE_WAL_ROUND,
        PurgeRoundRequest(deployment=DEPLOYMENT, requested_by="anna"),
        id=ids.purge_wal_round(DEPLOYMENT),
        task_queue=ids.control_queue(DEPLOYMENT),
        search_attributes=TypedSearchAttributes([SearchAttributePair(DEPLOYMENT_KEY, DEPLOYMENT)]),
    )
    await round_.result()
    purge = client.get_workflow_handle(ids.purge_wal(DEPLOYMENT, topic))
    await purge.result()

    attributes = (await purge.describe()).typed_search_attributes
    assert {key: attributes.get(key) for key in ALL} == dict.fromkeys(ALL) | {DEPLOYMENT_KEY: DEPLOYMENT}


async def test_workflows_run_without_attributes(
    topics: Topics, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_is_known(_: Client) -> list[str]:
        return sorted(key.name for key in ALL)

    monkeypatch.setattr(search_attributes, "missing", none_is_known)
    topic, client = fill(topics, tmp_path / "v"), topics.served.client
    round_ = await ROUNDS.start(client, settings, RecycleRequest(instance="shop", requested_by="anna"))
    order = PurgeRequest(topic=topic, deployment=DEPLOYMENT, instance="shop", requested_by="anna")
    purge = await PURGES.start(client, settings, order)
    await round_.result()
    await purge.result()

    assert (await round_.describe()).typed_search_attributes.get(CAPABILITY) is None
    assert topics.topic(topic).floor == 10


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
        findings = await examine_temporal(at.settings)
    finally:
        await search_attributes.register(client)
        known = await until_described(client, deployment)
        await schedules.handle(client, deployment).delete()

    assert REQUESTED_BY.name in rows["search attributes"].why
    assert rows["search attributes"].way_out == "sexton schedules apply"
    broken = next(finding for finding in findings if finding.state == "FAIL" and REQUESTED_BY.name in finding.detail)
    assert broken.todo == "sexton schedules apply"
    assert len(known) == 1


@pytest.mark.slow
async def test_an_attribute_of_another_type_is_not_used(temporal_server: DevServer) -> None:
    namespace, others = uuid.uuid4().hex, sorted({key.name for key in ALL} - {STATE.name})
    client = await Client.connect(temporal_server.address, namespace=namespace, data_converter=CONVERTER)
    retention = Duration(seconds=86_400)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=retention)
    )
    number = {STATE.name: IndexedValueType.INDEXED_VALUE_TYPE_INT}
    request = AddSearchAttributesRequest(namespace=namespace, search_attributes=number)

    async def wrong() -> list[str]:
        with suppress(RPCError):  # the server knows the new namespace after some seconds
            await client.operator_service.add_search_attributes(request)
        return await search_attributes.of_another_type(client)

    assert await eventually_async("the attribute is a number", wrong) == [STATE.name]
    assert await search_attributes.register(client) == others
    missing = await eventually_async(
        "the others are known", lambda: search_attributes.missing(client), lambda names: not set(names) & set(others)
    )

    assert missing == [STATE.name]
    attributes = at_start(DEPLOYMENT, Capability.RECYCLE, "shop", "anna")
    assert await search_attributes.known(client, attributes) == TypedSearchAttributes.empty
