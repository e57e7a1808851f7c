"""Checks: what each saw, and what does not agree."""

from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from sexton.check.model import FindingType
from sexton.check.sql.repair import RepairRefused
from sexton.insight.wording import quantity
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.operators.access.model import Grant

After = Annotated[int, Query(ge=0, le=2**63 - 1)]
SHOWN = 100


@pages.get("/checks")
def checks(visit: CurrentVisit, after: After = 0, type: FindingType | Literal[""] = "") -> Response:
    """Show the newest checks of an instance, or of all, and open findings."""
    runs, findings = visit.ask("check list", instance=visit.scope).items, visit.service.stores.checks.findings
    names = visit.instances if visit.scope is None else [visit.scope]
    of_each = (finding for name in names for finding in findings(name, after, SHOWN + 1, of=type or None))
    listed = sorted(of_each, key=lambda finding: finding.id)
    return visit.about(
        "checks",
        "sexton check list" if visit.scope is None else "sexton check findings",
        runs=runs,
        findings=listed[:SHOWN],
        following=listed[SHOWN - 1].id if len(listed) > SHOWN else "",
        types=list(FindingType),
        type=type,
        repairable=0 if visit.scope is None else _repairable(visit),
    )


@pages.post("/checks/repair")
def repair(visit: CurrentVisit) -> Response:
    """Mark confirmed orphans. Above a share of a vault, no round deletes them before an operator has applied a plan."""
    visit.caller.require(Grant.OPERATE, visit.instance)
    now = _repairable(visit)
    other = f"{quantity(now, 'orphan')} can be marked by now, not as many as the page showed; look again"
    visit.agreed("orphans", now, other)
    return visit.sent("check repair", "checks", what="orphans")


@pages.get("/checks/{check}")
def show(visit: CurrentVisit, check: int) -> Response:
    """Show one check: what it saw, and what it could not see."""
    report = visit.ask("check show", check=check)
    instance = report.run.instance
    return visit.show("check.html", "checks", cli=f"sexton check show {check}", instance=instance, report=report)


def _repairable(visit: CurrentVisit) -> int:
    """Return how many orphans can be marked now; 0 unless the last check was complete and is recent."""
    try:
        return visit.service.stores.repairs.orphans(visit.instance, dry_run=True).found
    except RepairRefused:
        return 0
