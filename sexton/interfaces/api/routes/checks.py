"""Checks of metadata against objects, their findings, and the comparison of a front end's memory with records."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from sexton.check.model import CheckReport, CheckRequest, Finding, FindingType, PeerComparison
from sexton.check.port import UnknownCheck
from sexton.check.sql import peers
from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operations.registry import Deed
from sexton.operators.access.model import EVERY_INSTANCE, UNKNOWN_INSTANCE, Grant
from sexton.protocol.checks import Acceptance, ChecksBody, Findings, Inventory, Repaired, RepairOrder, StartedCheck
from sexton.protocol.operating import Signal, Signalled
from sexton.runtime.temporal.checks import CHECKS

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
After = Annotated[int, Query(ge=0, le=2**63 - 1, description="only findings with higher numbers")]


@routes.get("/checks")
def checks(service: Service, caller: CurrentCaller, instance: CoveredInstance) -> ChecksBody:
    """Return the 20 newest checks, of one instance or of all that the token covers."""
    caller.require(Grant.READ, instance)
    of_instance = None if instance == EVERY_INSTANCE else instance
    return ChecksBody(checks=tuple(service.stores.checks.runs(of_instance, 20)))


@routes.get("/checks/{check}")
def check(check: Number, service: Service, caller: CurrentCaller) -> CheckReport:
    """Return a check: what it read, which inputs were missing, and which findings are open now."""
    try:
        report = service.stores.checks.report(check)
    except UnknownCheck:
        caller.require(Grant.READ, UNKNOWN_INSTANCE)
        raise
    caller.require(Grant.READ, report.run.instance)
    return report


@routes.get("/instances/{instance}/findings")
def findings(
    instance: str,
    service: Service,
    caller: CurrentCaller,
    after: After = 0,
    type_: Annotated[FindingType | None, Query(alias="type")] = None,
) -> Findings:
    """Return at most 1,000 findings in the order of their numbers."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    return Findings(findings=tuple(service.stores.checks.findings(instance, after, 1_000, of=type_)))


@routes.post("/instances/{instance}/checks", status_code=202)
def start(instance: str, request: Request, service: Service, caller: CurrentCaller) -> StartedCheck:
    """Start a check of the instance now; do not wait. A check deletes nothing."""
    with caller.recorded(Deed("check run", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        run = request.app.state.starter.start_check(CheckRequest(instance=instance, requested_by=caller.name))
    return StartedCheck(instance=instance, workflow=run.workflow, run=run.run)


@routes.post("/instances/{instance}/checks/running/{signal}", status_code=202)
def signal(instance: str, signal: Signal, request: Request, service: Service, caller: CurrentCaller) -> Signalled:
    """Signal the running check.

    ``cancel`` ends it, and it confirms nothing; ``pause`` stops it, and no other begins; ``resume`` lets it list
    everything again, and ``retry`` ends a backoff.
    """
    with caller.recorded(Deed(f"check {signal}", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        workers = request.app.state.starter.signal(CHECKS, instance, signal)
    return Signalled(instance=instance, signal=signal, workers=workers)


@routes.post("/instances/{instance}/findings/{finding}/accept")
def accept(instance: str, finding: Number, body: Acceptance, service: Service, caller: CurrentCaller) -> Finding:
    """Accept a finding as correct: it is no longer listed or repaired. Idempotent."""
    with caller.recorded(Deed("check accept", instance, Grant.OPERATE, str(finding), body.reason), keeps=True):
        service.stores.registry.instance(instance)
        return service.stores.checks.accept(finding, caller.name, body.reason, instance)


@routes.post("/instances/{instance}/repair")
def repair(instance: str, body: RepairOrder, service: Service, caller: CurrentCaller) -> Repaired:
    """Repair confirmed findings of the last check, which must be complete. Deletes nothing: orphans become marks."""
    repairs = service.stores.repairs
    with caller.recorded(Deed(f"check repair {body.what}", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        if body.what == "lost":
            return Repaired(result=repairs.lost(instance, dry_run=body.dry_run))
        awaits = repairs.awaits(instance, key_prefix=body.key_prefix, limit=body.limit)
        result = repairs.orphans(instance, key_prefix=body.key_prefix, limit=body.limit, dry_run=body.dry_run)
    return Repaired(result=result, awaits=awaits if result.found else "")


@routes.post("/instances/{instance}/inventory")
def inventory(instance: str, body: Inventory, service: Service, caller: CurrentCaller) -> PeerComparison:
    """Compare a front end's memory with the records, in both directions, for a range of ids. Read-only."""
    caller.require(Grant.OWNER, instance)
    service.stores.registry.instance(instance)
    bounds = body.after, body.until
    return peers.compare(service.stores.owners, instance, body.kind, body.ids, bounds)
