"""Workers and the schedule that starts due rounds; they need Temporal."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message, Page
from sexton.operations.fields import Flag, Length, Reason, Remark
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.runtime.temporal import schedules, search_attributes, versions
from sexton.runtime.temporal.schedules import ScheduleInfo
from sexton.runtime.temporal.versions import WorkerBuild

if TYPE_CHECKING:
    from temporalio.client import Client


class AppliedSchedule(Message):
    """The schedule that was created or updated. ``every_seconds``: between two rounds of an instance.

    ``tick_seconds``: how often it looks for due instances and topics. ``registered``: new search attributes.
    """

    schedule: str
    result: str
    every_seconds: int
    tick_seconds: int
    registered: tuple[str, ...]
    warning: str = ""


class Builds(Page[WorkerBuild]):
    """Builds of workers; ``own``: that of the process which answers."""

    own: str


class Promoted(Message):
    """The build on which workflows begin."""

    build: str


class Clock(Message):
    """The clock of a trial (ms since 1970)."""

    now_at: int


@operation("schedules apply", "POST /v1/schedules", Grant.OPERATE)
def apply_schedule(call: Call) -> AppliedSchedule:
    """Start rounds automatically: create the schedule, or update it. Repeatable.

    Example: sexton schedules apply
    """
    settings, live = call.deployment.settings, call.deployment.live

    async def register_and_apply(client: "Client") -> tuple[str, list[str], str]:
        registered, warning = list[str](), ""
        try:
            registered = await search_attributes.register(client)
        except SextonError as e:
            warning = str(e)
        return await schedules.apply(client, settings, live.shortest_interval()), registered, warning

    result, registered, warning = call.deployment.starter.ask(register_and_apply)
    return AppliedSchedule(
        schedule=settings.require_deployment(),
        result=result,
        every_seconds=live.current().recycle.recycle_interval_seconds,
        tick_seconds=schedules.tick_seconds(live.shortest_interval()),
        registered=tuple(registered),
        warning=warning,
    )


@operation("schedules list", "GET /v1/schedules", Grant.READ, READS)
def list_schedules(call: Call) -> Page[ScheduleInfo]:
    """Print the schedule that is stored in Temporal.

    Example: sexton schedules list
    """
    deployment = call.deployment.settings.require_deployment()
    return Page[ScheduleInfo](
        items=tuple(call.deployment.starter.ask(lambda client: schedules.describe(client, deployment)))
    )


@operation("schedules pause", "POST /v1/schedules/pause", Grant.OPERATE, Logged(keeps=True))
def pause_schedules(call: Call, *, reason: Reason) -> None:
    """Stop starting rounds automatically; running rounds continue. To stop deletion: `sexton stop --all`.

    Example: sexton schedules pause --reason 'migrating the database'
    """
    deployment, note = call.deployment.settings.require_deployment(), f"{reason} ({call.by})"
    call.deployment.starter.ask(lambda client: schedules.pause(client, deployment, note))


@operation("schedules resume", "POST /v1/schedules/resume", Grant.OPERATE)
def resume_schedules(call: Call, *, reason: Remark = "") -> None:
    """Start rounds automatically again, at the next tick of the schedule.

    Example: sexton schedules resume
    """
    deployment = call.deployment.settings.require_deployment()
    note = f"resumed by {call.by}{f': {reason}' if reason else ''}"
    call.deployment.starter.ask(lambda client: schedules.resume(client, deployment, note))


@operation("worker builds", "GET /v1/workers/builds", Grant.READ, READS)
def builds(call: Call) -> Builds:
    """Print the builds of this deployment's workers, and which takes new workflows.

    Only with temporal.worker_versioning.

    Example: sexton worker builds
    """
    settings = call.deployment.settings
    known = call.deployment.starter.ask(lambda client: versions.builds(client, settings))
    return Builds(items=tuple(known), own=versions.build_of(settings))


@operation("worker promote", "POST /v1/workers/promote", Grant.OPERATE, Logged("{build}"))
def promote(
    call: Call, build: Annotated[str, Field(max_length=200, description="Default: this installation's.")] = ""
) -> Promoted:
    """Make a build current: workflows begin on it, and running ones move to it.

    Activities that run end on the earlier build, so stop its workers as usual.

    Example: sexton worker promote 0.2.0
    """
    settings = call.deployment.settings
    name = build or versions.build_of(settings)
    call.deployment.starter.ask(lambda client: versions.promote(client, settings, name))
    return Promoted(build=name)


@operation("trial advance", "", Grant.OPERATE, Logged("{seconds} s"))
def advance_clock(
    call: Call, seconds: Annotated[Length, Flag(shown="DURATION"), Field(description="How far: 30m, 12h, 7d or 2w.")]
) -> Clock:
    """Move the database's clock forward.

    Only in a deployment whose id begins with demo- or test-. The clock never moves back: what falls due stays due.

    Example: sexton trial advance 4d
    """
    from sexton.database.schema import move_clock

    move_clock(call.deployment.db, seconds)
    with call.deployment.db.read() as c:
        return Clock(now_at=call.deployment.db.now(c))
