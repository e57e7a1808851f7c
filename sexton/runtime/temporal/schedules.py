"""The one schedule of a deployment: a tick that starts due rounds. Applying it again changes what differs, no more."""

import datetime as dt

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.recycle.model import TickRequest
from workflows import ids

CATCH_UP = dt.timedelta(seconds=10)
"""What was missed is not made up for: the next tick starts all that is due. Temporal's own floor."""
LONGEST_TICK_SECONDS = 60
SHORTEST_TICK_SECONDS = 2


class NoSchedule(SextonError):
    """Rounds are not scheduled in this deployment."""


class ScheduleInfo(Message):
    """One schedule as Temporal has it; instants in ms since 1970."""

    id: str
    every_seconds: float
    paused: bool
    note: str
    last: int | None
    next: int | None


def tick_seconds(interval_seconds: int) -> int:
    """Return how often a tick looks for due instances: a quarter of the interval, at most a minute."""
    return max(SHORTEST_TICK_SECONDS, min(LONGEST_TICK_SECONDS, interval_seconds // 4))


async def apply(client: Client, settings: Settings) -> str:
    """Create or update the schedule; an operator's pause stays. Return ``created``, ``updated`` or ``unchanged``."""
    deployment = settings.require_deployment()
    wanted = Schedule(
        action=ScheduleActionStartWorkflow(
            ids.TICK,
            TickRequest(deployment=deployment),
            id=ids.tick(deployment),
            task_queue=ids.control_queue(deployment),
            # A tick that no worker takes is not worth keeping: the next one sees the same and more.
            execution_timeout=dt.timedelta(minutes=5),
            static_summary="start rounds that are due",
        ),
        spec=ScheduleSpec(
            intervals=[
                ScheduleIntervalSpec(
                    every=dt.timedelta(seconds=tick_seconds(settings.recycle.recycle_interval_seconds))
                )
            ]
        ),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.BUFFER_ONE, catchup_window=CATCH_UP),
        state=ScheduleState(note="starts due rounds; made by: sexton schedules apply"),
    )
    try:
        await client.create_schedule(ids.tick(deployment), wanted)
        return "created"
    except ScheduleAlreadyRunningError:
        pass
    changed = False

    def differs(found: ScheduleUpdateInput) -> ScheduleUpdate | None:
        nonlocal changed
        now = found.description.schedule
        action = now.action
        assert isinstance(action, ScheduleActionStartWorkflow)
        same = (
            [i.every for i in now.spec.intervals] == [i.every for i in wanted.spec.intervals]
            and (now.policy.overlap, now.policy.catchup_window) == (wanted.policy.overlap, CATCH_UP)
            and (action.workflow, action.task_queue) == (ids.TICK, ids.control_queue(deployment))
        )
        if same:
            return None
        changed = True
        wanted.state = now.state  # an operator's pause, and why
        return ScheduleUpdate(wanted)

    await handle(client, deployment).update(differs)
    return "updated" if changed else "unchanged"


async def pause(client: Client, deployment: str, note: str) -> None:
    """Pause it; rounds that run go on. Raises ``NoSchedule``."""
    await _told(handle(client, deployment).pause(note=note))


async def resume(client: Client, deployment: str, note: str) -> None:
    """Let it tick again. Raises ``NoSchedule``."""
    await _told(handle(client, deployment).unpause(note=note))


async def nudge(client: Client, deployment: str) -> None:
    """Tick now, unless there is no schedule or an operator has paused it: a slot is free."""
    try:
        if not (await handle(client, deployment).describe()).schedule.state.paused:
            # Not SKIP: a trigger while a tick runs would be dropped silently.
            await handle(client, deployment).trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
    except RPCError as e:
        if e.status is not RPCStatusCode.NOT_FOUND:
            raise


async def describe(client: Client, deployment: str) -> list[ScheduleInfo]:
    """Return the deployment's schedules, none where rounds are not scheduled."""
    try:
        found = await handle(client, deployment).describe()
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            return []
        raise SextonError(f"Temporal does not tell of its schedules: {e.message}") from e
    last = [a.started_at for a in found.info.recent_actions]
    return [
        ScheduleInfo(
            id=found.id,
            every_seconds=found.schedule.spec.intervals[0].every.total_seconds(),
            paused=found.schedule.state.paused,
            note=found.schedule.state.note or "",
            last=_ms(max(last)) if last else None,
            next=_ms(min(found.info.next_action_times)) if found.info.next_action_times else None,
        )
    ]


def handle(client: Client, deployment: str) -> ScheduleHandle:
    """Return the handle of the deployment's schedule."""
    return client.get_schedule_handle(ids.tick(deployment))


async def _told(call: object) -> None:
    try:
        await call  # type: ignore[misc]
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise NoSchedule("rounds are not scheduled yet; run: sexton schedules apply") from e
        raise SextonError(f"Temporal refused: {e.message}") from e


def _ms(at: dt.datetime) -> int:
    return int(at.timestamp() * 1000)
