"""Checks: what each saw, and what does not agree."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from sexton.check.model import FindingType
from sexton.interfaces.api.routes import checks as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit

routes = APIRouter(prefix=f"{session.PATH}/checks", route_class=GuardedPage)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
After = Annotated[int, Query(ge=0, le=2**63 - 1)]
SHOWN = 100


@routes.get("")
def checks(visit: CurrentVisit, after: After = 0, type: FindingType | None = None) -> Response:
    """Show the newest checks of an instance, and its open findings."""
    runs = api.checks(visit.service, visit.caller, visit.instance).checks
    found = visit.service.stores.checks.findings(visit.instance, after, SHOWN + 1, of=type)
    return visit.show(
        "checks.html",
        "checks",
        cli=f"sexton check findings {visit.instance}",
        instance=visit.instance,
        runs=runs,
        findings=found[:SHOWN],
        following=found[SHOWN - 1].id if len(found) > SHOWN else "",
        types=list(FindingType),
        type=type,
    )


@routes.get("/{check}")
def show(visit: CurrentVisit, check: Number) -> Response:
    """Show one check: what it saw, and what it could not see."""
    report = api.check(check, visit.service, visit.caller)
    instance = report.run.instance
    return visit.show("check.html", "checks", cli=f"sexton check show {check}", instance=instance, report=report)
