"""Tablet copies: their placement, the reports of backends, and which binlogs these may delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import CurrentCaller, SelectedInstance, Service, resolved
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.names import ID, NAME
from sexton.protocol.replicas import BackendReport, CutsDone, Decommissioned, FullCopy, Placements, Replicas
from sexton.replication.binlog.model import AcknowledgeResult, CutPage
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import (
    Copy,
    Placement,
    PlaceResult,
    Replica,
    ReplicaReport,
    ReportReceipt,
    Tablet,
    TabletReport,
)

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Database = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=NAME)]
Backend = Annotated[str, Path(pattern=ID)]
TabletId = Annotated[str, Path(pattern=ID)]
Uid = Annotated[str, Query(pattern=r"^[A-Za-z0-9.-]{0,128}$", description="only copies whose uids come after this one")]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@routes.put("/databases/{db}/tables/{table}/replicas", max_body_size=MAX_ITEMS_BYTES)
def place(
    db: Database, table: Table, body: Placements, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> PlaceResult:
    """Store where the copies of some partitions are, before a copy gets its first version."""
    dropped = ", ".join(body.dropped_partitions)
    with (
        caller.recorded(Deed("replica partitions dropped", instance, Grant.OWNER, f"{db}/{table}: {dropped}"))
        if dropped
        else caller.routine(Deed("replica place", instance, Grant.OWNER, f"{db}/{table}"))
    ):
        tablets = tuple(
            Tablet(
                tablet=placed.tablet,
                part=placed.partition,
                copies=tuple(Copy(backend=copy.backend, uid=copy.uid) for copy in placed.copies),
            )
            for placed in body.tablets
        )
        order = Placement(db=db, table=table, tablets=tablets, dropped=body.dropped_partitions)
        return service.stores.binlogs.placements.place(instance, order)


@routes.post("/backends/{backend}/report", max_body_size=MAX_ITEMS_BYTES)
def report(
    backend: Backend, body: BackendReport, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> ReportReceipt:
    """Store a backend's report of its copies. Outdated reports and other backends' copies are ignored."""
    with caller.routine(Deed("replica report", instance, Grant.OPERATE, backend, node=backend)):
        tablets = tuple(
            TabletReport(**reported.model_dump(exclude={"versions"}), ranges=reported.versions)
            for reported in body.tablets
        )
        order = ReplicaReport(boot=body.boot, sequence=body.sequence, tablets=tablets)
        return service.stores.binlogs.reports.accept(instance, backend, order)


@routes.delete("/backends/{backend}")
def decommission(
    backend: Backend, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Decommissioned:
    """Remove a backend that will never come back, with all of its copies. Refused if one is a tablet's only copy."""
    with caller.recorded(Deed("replica decommission", instance, Grant.ADMIN, backend)):
        return Decommissioned(replicas=service.stores.binlogs.placements.decommission(instance, backend))


@routes.get("/replicas")
def unwell(service: Service, caller: CurrentCaller, instance: SelectedInstance, limit: Limit = 100) -> Replicas:
    """Return unhealthy copies, in the order of their tablets."""
    caller.require(Grant.READ, instance)
    unhealthy, _now = service.stores.binlogs.replicas.list_unhealthy(instance, limit)
    return Replicas(replicas=tuple(unhealthy))


@routes.get("/replicas/{tablet}")
def tablet(tablet: TabletId, service: Service, caller: CurrentCaller, instance: SelectedInstance) -> Replicas:
    """Return the copies of a tablet, and the first version that they still need."""
    caller.require(Grant.READ, instance)
    copies, now = service.stores.binlogs.replicas.tablet(instance, tablet)
    lowest = policy.lowest_needed_version(copies, now)
    return Replicas(replicas=tuple(copies), need=lowest[0] if lowest else None)


@routes.post("/replicas/{tablet}/{backend}/full-copy")
def full_copy(
    tablet: TabletId,
    backend: Backend,
    body: FullCopy,
    service: Service,
    caller: CurrentCaller,
    instance: SelectedInstance,
) -> Replica:
    """Record that only a full copy repairs a copy, so that it no longer blocks the deletion of versions."""
    with caller.recorded(Deed("replica full-copy", instance, Grant.ADMIN, f"{tablet} on {backend}", body.reason)):
        return service.stores.binlogs.replicas.full_copy(instance, tablet, backend, body.reason)


@routes.get("/nodes/{node}/cuts")
def cuts(
    node: Backend,
    service: Service,
    caller: CurrentCaller,
    instance: SelectedInstance,
    after: Uid = "",
    limit: Limit = 1_000,
    queue: bool = False,
) -> CutPage:
    """Return the versions up to which a backend may delete its copies' binlogs, page by page. A grant is permanent."""
    with caller.routine(Deed("binlog grant cuts", instance, Grant.OPERATE, node, node=node)):
        return service.stores.binlogs.sender.page(instance, node, after, limit, queue=queue)


@routes.post("/nodes/{node}/cuts", max_body_size=MAX_ITEMS_BYTES)
def done(node: Backend, body: CutsDone, service: Service, caller: CurrentCaller) -> AcknowledgeResult:
    """Store the versions that a backend has deleted. Versions beyond its grant are ignored."""
    instance = resolved(service, caller, body.instance)
    with caller.routine(Deed("binlog cuts done", instance, Grant.OPERATE, node, node=node)):
        return service.stores.binlogs.sender.acknowledge(instance, node, body.done)
