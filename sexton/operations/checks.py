"""Checks: compare metadata with objects, list what does not agree, and repair it."""

from typing import Annotated, Literal

from pydantic import Field

from sexton.check.model import CheckReport, CheckRequest, Finding, FindingType, PeerComparison, RepairResult, Run
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message, Page, StrictMessage
from sexton.operations.fields import (
    MAX_NAME,
    MAX_NUMBER,
    ROWS,
    After,
    Covered,
    Flag,
    Instance,
    Limit,
    Names,
    Reason,
    StartedWork,
    Whole,
    page,
)
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant

CheckNumber = Annotated[Whole, Flag(shown="CHECK"), Field(ge=1, le=MAX_NUMBER, description="The check's number.")]
FindingNumber = Annotated[Whole, Flag(shown="FINDING"), Field(ge=1, le=MAX_NUMBER, description="Its number.")]


class Inventory(StrictMessage):
    """The ids of one kind of record that a front end has in memory, in the range after ``after``, up to ``until``."""

    kind: Annotated[str, Field(min_length=1, max_length=64)]
    ids: Names
    after: Annotated[str, Field(max_length=MAX_NAME)] = ""
    until: Annotated[str, Field(max_length=MAX_NAME)] = ""


class Repaired(RepairResult):
    """What a repair did. ``awaits``: why no round deletes these orphans before an operator has applied a plan."""

    what: str
    dry_run: bool
    awaits: str = ""


class Rebased(Message):
    """The instance whose next check is not compared with earlier ones; ``missing``: what the last check missed."""

    instance: str
    missing: tuple[str, ...]


@operation("check list", "GET /v1/checks", Grant.READ, READS)
def checks(call: Call, instance: Covered = None, *, limit: Limit = 20) -> Page[Run]:
    """Print the newest checks.

    Example: sexton check list shop
    """
    rows = call.stores.checks.runs(instance, limit + 1)
    return Page[Run](items=tuple(rows[:limit]), more=len(rows) > limit)


@operation(
    "check show",
    "GET /v1/checks/{check}",
    Grant.READ,
    Logged("{check}", changes=False, of=lambda call, check: call.stores.checks.report(check).run.instance),
)
def check(call: Call, check: CheckNumber) -> CheckReport:
    """Print one check, and the open findings.

    What the check saw, what it could not see, and the findings that are open now.

    Example: sexton check show 3
    """
    return call.stores.checks.report(check)


@operation("check findings", "GET /v1/instances/{instance}/findings", Grant.READ, READS)
def findings(
    call: Call,
    instance: Instance,
    *,
    type: Annotated[FindingType | None, Field(description="Only findings of this type.")] = None,
    confirmed: Annotated[bool, Field(description="Only confirmed findings.")] = False,
    after: After = 0,
) -> Page[Finding]:
    """Print open findings, a thousand at a time.

    A LOST finding is confirmed by looking up its object and its record a second time, an ORPHAN by two complete checks
    at least a day apart. All of them, in a Parquet file: --parquet FILE.

    Example: sexton check findings shop --type LOST
    """
    return Page[Finding](
        **page(call.stores.checks.findings(instance, after, ROWS + 1, confirmed=confirmed, of=type), ROWS)
    )


@operation("check run", "POST /v1/instances/{instance}/checks", Grant.OPERATE, Logged(once=True))
def run_check(call: Call, instance: Instance) -> StartedWork:
    """Check an instance now.

    List its vaults, read its records, print what does not agree. A check deletes nothing.

    Ctrl-C stops waiting, not the check. Exit code 3: the check could not see everything, so it confirms nothing. Exit
    code 4: the loss of an object is confirmed.

    Example: sexton check run shop
    """
    if not call.stores.registry.vaults(instance):
        raise BadInput(f"instance {instance} has no vault to check; add one with: sexton vault add")
    return call.start(CheckRequest(instance=instance, requested_by=call.by))


@operation(
    "check accept",
    "POST /v1/findings/{finding}/accept",
    Grant.OPERATE,
    Logged("{finding}", keeps=True, of=lambda call, finding, **_: call.stores.checks.instance_of(finding)),
)
def accept_finding(call: Call, finding: FindingNumber, *, reason: Reason) -> Finding:
    """Accept a finding as correct. It is no longer listed or repaired. Repeatable.

    Example: sexton check accept 17 --reason 'put there by hand'
    """
    return call.stores.checks.accept(finding, call.by, reason)


@operation("check rebase", "POST /v1/instances/{instance}/checks/rebase", Grant.OPERATE, Logged(asks=True))
def rebase(call: Call, instance: Instance, *, reason: Reason) -> Rebased:
    """Accept that far fewer objects exist.

    The next check is not compared with earlier ones. It is refused unless the last check saw everything that is there.

    Example: sexton check rebase shop --reason 'the archive was dropped'
    """
    missing = call.stores.checks.shrunken(instance).missing_inputs
    call.stores.checks.rebase(instance)
    return Rebased(instance=instance, missing=tuple(missing))


@operation("check repair", "POST /v1/instances/{instance}/repair", Grant.OPERATE, Logged("{what}", asks=True))
def repair(
    call: Call,
    what: Annotated[Literal["orphans", "lost"], Field(description="orphans or lost.")],
    instance: Instance,
    *,
    key_prefix: Annotated[
        str | None,
        Flag(shown="PREFIX"),
        Field(min_length=1, max_length=MAX_NAME, description="Only orphans whose key begins with it."),
    ] = None,
    limit: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="Only so many orphans, the oldest findings first.")
    ] = None,
    dry_run: Annotated[bool, Field(description="Only count.")] = False,
) -> Repaired:
    """Repair confirmed findings of the last check, which must be complete. This deletes nothing.

    orphans: they become marks of kind orphan, which wait for their retention, appear in a round's plan, and can be
    undropped until a round claims them. If more than one object in a hundred of a vault waits as an orphan, that plan
    waits for an operator's approval. lost: objects are undeleted from object versions.

    Example: sexton check repair orphans shop
    """
    repairs = call.stores.repairs
    if what == "lost":
        if key_prefix is not None or limit is not None:
            raise WrongUsage("--key-prefix and --limit go with orphans")
        return Repaired(what=what, dry_run=dry_run, **repairs.lost(instance, dry_run=dry_run).model_dump())
    awaits = repairs.awaits(instance, key_prefix=key_prefix or "", limit=limit)
    result = repairs.orphans(instance, key_prefix=key_prefix or "", limit=limit, dry_run=dry_run)
    return Repaired(what=what, dry_run=dry_run, awaits=awaits if result.found else "", **result.model_dump())


@operation("check inventory", "POST /v1/instances/{instance}/inventory", Grant.OWNER, READS)
def inventory(call: Call, instance: Instance, memory: Inventory) -> PeerComparison:
    """Compare a front end's memory with the records, in both directions, for a range of ids. Read-only."""
    from sexton.check.policy import compare_peer

    records = call.stores.owners.record_ids(instance, memory.kind, memory.after, memory.until)
    return compare_peer(memory.kind, memory.ids, (memory.after, memory.until), records)
