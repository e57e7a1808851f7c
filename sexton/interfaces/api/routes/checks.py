"""Checks of metadata against objects, their findings, and the comparison of a front end's memory with records."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.check.model import CheckReport, FindingType, PeerComparison
from sexton.check.port import UnknownCheck
from sexton.check.sql import peers
from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operators.access.model import EVERY_INSTANCE, UNKNOWN_INSTANCE, Grant
from sexton.protocol.checks import ChecksBody, Findings, Inventory

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


@routes.post("/instances/{instance}/inventory")
def inventory(instance: str, body: Inventory, service: Service, caller: CurrentCaller) -> PeerComparison:
    """Compare a front end's memory with the records, in both directions, for a range of ids. Read-only."""
    caller.require(Grant.OWNER, instance)
    service.stores.registry.instance(instance)
    bounds = body.after, body.until
    return peers.compare(service.db, service.stores.owners, instance, body.kind, body.ids, bounds)
