"""Whether metadata and objects agree: checks and their findings; and a peer's memory against the records."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.check.model import CheckReport, Compared, Type
from sexton.check.sql import peers
from sexton.check.sql.store import CheckStore
from sexton.interfaces.api.caller import Asker, AtDesk, Reader
from sexton.operators.access.model import Grant
from sexton.protocol.checks import ChecksBody, Findings, Inventory

routes = APIRouter(prefix="/v1")
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]
After = Annotated[int, Query(ge=0, le=2**63 - 1, description="only findings with higher numbers")]


@routes.get("/checks")
def checks(at: AtDesk, _: Reader, instance: str | None = None) -> ChecksBody:
    """The newest checks, of one instance or of all."""
    if instance is not None:
        at.registry.instance(instance)
    return ChecksBody(checks=tuple(CheckStore(at.db).runs(instance, 20)))


@routes.get("/checks/{check}")
def check(check: Number, at: AtDesk, _: Reader) -> CheckReport:
    """One check: what it saw, what it lacks, and what stands open now."""
    return CheckStore(at.db).report(check)


@routes.get("/instances/{instance}/findings")
def findings(
    instance: str, at: AtDesk, _: Reader, after: After = 0, type_: Annotated[Type | None, Query(alias="type")] = None
) -> Findings:
    """What does not agree, a thousand at a time, in the order of their numbers."""
    at.registry.instance(instance)
    return Findings(findings=tuple(CheckStore(at.db).findings(instance, after, 1_000, of=type_)))


@routes.post("/instances/{instance}/inventory")
def inventory(instance: str, body: Inventory, at: AtDesk, asker: Asker) -> Compared:
    """Compare what a front end has in memory with the records, both ways, for a range of ids. Changes nothing."""
    asker.needs(Grant.OPERATE)
    at.registry.instance(instance)
    return peers.compare(at.db, instance, body.kind, body.ids, body.after, body.until)
