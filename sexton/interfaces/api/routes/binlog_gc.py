"""The binlog GC: start and signal it, and approve a very large cut."""

from fastapi import APIRouter, Request

from sexton.interfaces.api.caller import Caller, CurrentCaller, SelectedInstance, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.routes.binlogs import Database, Table
from sexton.interfaces.operator_service import OperatorService
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protocol.binlogs import CutApproval, StartedGc
from sexton.protocol.operating import Signal, Signalled
from sexton.replication.binlog.messages import GcRequest
from sexton.replication.binlog.model import Log
from sexton.runtime.temporal.binlogs import BINLOG_GCS

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)


@routes.post("/instances/{instance}/binlog-gc", status_code=202)
def start(instance: str, request: Request, service: Service, caller: CurrentCaller) -> StartedGc:
    """Start the binlog GC of the instance now; do not wait."""
    with caller.recorded(Deed("binlog gc", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        deployment = service.settings.require_deployment()
        order = GcRequest(deployment=deployment, instance=instance, requested_by=caller.name)
        run = request.app.state.starter.start_gc(order)
    return StartedGc(instance=instance, workflow=run.workflow, run=run.run)


@routes.post("/instances/{instance}/binlog-gc/running/{signal}", status_code=202)
def signal(instance: str, signal: Signal, request: Request, service: Service, caller: CurrentCaller) -> Signalled:
    """Signal the running binlog GC.

    ``cancel`` ends it; cuts that were made remain. ``pause`` pauses it, and no other begins; ``resume`` continues it,
    and ``retry`` ends a backoff.
    """
    with caller.recorded(Deed(f"binlog {signal}", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        workers = request.app.state.starter.signal(BINLOG_GCS, instance, signal)
    return Signalled(instance=instance, signal=signal, workers=workers)


@routes.post("/databases/{db}/binlog/approve")
def approve_database(
    db: Database, body: CutApproval, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Log:
    """Approve a very large cut of a database's log, up to the record that was shown."""
    return _approve(db, "", body, service, caller, instance)


@routes.post("/databases/{db}/tables/{table}/binlog/approve")
def approve_table(
    db: Database, table: Table, body: CutApproval, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> Log:
    """Approve a very large cut of a table's log, up to the record that was shown."""
    return _approve(db, table, body, service, caller, instance)


def _approve(db: str, table: str, body: CutApproval, service: OperatorService, caller: Caller, instance: str) -> Log:
    subject = f"{db}/{table} up to {body.upto}" if table else f"{db} up to {body.upto}"
    with caller.recorded(Deed("binlog approve", instance, Grant.OPERATE, subject)):
        return service.stores.binlogs.configs.approve(instance, db, table, upto=body.upto)
