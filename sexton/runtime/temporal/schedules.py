"""The Temporal schedule of a deployment: it ticks, and each tick starts the work that is due.

It ticks often enough for the shortest interval in force: between rounds, checks, purges or binlog GCs.
"""

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from math import ceil

from pydantic import Field
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
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from config.live import MAX_AGE_SECONDS, LiveSettings
from config.settings import Settings
from sexton.database.engine import AWAY, Database, first_line
from sexton.insight.views import PAUSED
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.kernel.printable import printable
from sexton.recycle.rounds.model import TickRequest
from sexton.runtime.temporal import search_attributes
from workflows import ids
from workflows.search_attributes import Capability, at_start

log = logging.getLogger(__name__)
CATCH_UP = dt.timedelta(seconds=10)
"""Missed ticks are skipped: the next one starts everything that is due. Temporal allows no shorter window."""
LONGEST_TICK_SECONDS = 60
TICKS_AN_INTERVAL = 4
START_SECONDS = 2
"""So long after its tick work begins, from which its interval counts: the tick at its end must not come before that."""
DESCRIBE_SECONDS = 1.5
"""Patience where an attribute is missing: Temporal then answers with an internal error, which its client retries."""


REPEAT_SECONDS = 60.0
"""How soon a changed interval is applied again: `sexton up` may have applied that of its settings meanwhile. So often
it is seen whether the schedule still exists."""
ACTIVE = "active"
"""How the schedule is, in the row of the clock."""


class NoSchedule(SextonError):
    """Rounds are not scheduled in this deployment."""


class AttributesMissing(SextonError):
    """The schedule starts workflows with search attributes that the namespace has lost: Temporal starts none."""


class ScheduleInfo(Message):
    """One schedule as Temporal reports it; instants in ms since 1970."""

    id: str = Field(alias="schedule")
    every_seconds: float
    paused: bool
    note: str
    last: int | None = Field(alias="last_at")
    next: int | None = Field(alias="next_at")


def tick_seconds(interval_seconds: int) -> int:
    """Return the seconds between ticks, 60 at most: an interval ends with its fourth tick, or a later one."""
    seconds = interval_seconds + START_SECONDS
    return ceil(seconds / max(TICKS_AN_INTERVAL, ceil(seconds / LONGEST_TICK_SECONDS)))


async def apply(
    client: Client, settings: Settings, interval_seconds: int | None = None, paused: str | None = None
) -> str:
    """Create or update the schedule and keep an operator's pause; return ``created``, ``updated`` or ``unchanged``.

    ``interval_seconds``: the shortest interval in force; None: that of the settings. ``paused``: create it paused, with
    this note.
    """
    deployment = settings.require_deployment()
    every_seconds = tick_seconds(interval_seconds or settings.shortest_interval())
    attributes = at_start(deployment, Capability.SCHEDULE, "", ids.SCHEDULED)
    desired = _schedule(deployment, every_seconds, await search_attributes.known(client, attributes))
    if paused is not None:
        desired.state = ScheduleState(note=paused, paused=True)
    try:
        await client.create_schedule(ids.tick(deployment), desired)
        return "created"
    except ScheduleAlreadyRunningError:
        pass
    changed = False

    def update(current: ScheduleUpdateInput) -> ScheduleUpdate | None:
        nonlocal changed
        existing = current.description.schedule
        if _is_same(existing, desired):
            return None
        changed = True
        desired.state = existing.state  # an operator's pause, and its note
        return ScheduleUpdate(desired)

    await handle(client, deployment).update(update)
    return "updated" if changed else "unchanged"


def _schedule(deployment: str, every_seconds: int, attributes: TypedSearchAttributes) -> Schedule:
    """Return the schedule of a deployment as it should be; ``attributes``: of its workflows, which pass them on."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            ids.TICK,
            TickRequest(deployment=deployment),
            id=ids.tick(deployment),
            task_queue=ids.control_queue(deployment),
            # A tick that no worker takes may expire: the next one finds the same instances due.
            execution_timeout=dt.timedelta(minutes=5),
            static_summary="start what is due",
            typed_search_attributes=attributes,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=dt.timedelta(seconds=every_seconds))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.BUFFER_ONE, catchup_window=CATCH_UP),
        state=ScheduleState(note="starts due rounds; created by: sexton schedules apply"),
    )


def _is_same(existing: Schedule, desired: Schedule) -> bool:
    """Return whether two schedules tick alike and start the same workflow; their state is not compared."""
    action, desired_action = existing.action, desired.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    assert isinstance(desired_action, ScheduleActionStartWorkflow)
    return (
        [i.every for i in existing.spec.intervals] == [i.every for i in desired.spec.intervals]
        and (existing.policy.overlap, existing.policy.catchup_window) == (desired.policy.overlap, CATCH_UP)
        and (action.workflow, action.task_queue) == (desired_action.workflow, desired_action.task_queue)
        and len(action.typed_search_attributes) == len(desired_action.typed_search_attributes)
    )


async def follow_interval(client: Client, db: Database, live: LiveSettings) -> None:
    """Change how often the schedule ticks whenever the shortest interval in force changes, until cancelled.

    A schedule that Temporal has lost is made again; one that was never applied is not. An operator's pause stays.
    """
    own = known = tick_seconds(live.own.shortest_interval())
    changed_at, kept_at = 0.0, float("-inf")
    while True:
        try:
            if time.monotonic() - kept_at > REPEAT_SECONDS:
                await keep(client, db, live)
                kept_at = time.monotonic()
            seconds = tick_seconds(await asyncio.to_thread(live.shortest_interval))
            is_old = seconds != own and time.monotonic() - changed_at > REPEAT_SECONDS
            if seconds != known or is_old:
                await change(client, live.own.require_deployment(), seconds)
                known, changed_at = seconds, time.monotonic()
        except AWAY as e:
            log.warning("the intervals were not read, and are read again: %s", first_line(e))
        except (RPCError, SextonError) as e:
            log.warning("the schedule was not changed, and is tried again: %s", e)
        await asyncio.sleep(MAX_AGE_SECONDS)


async def keep(client: Client, db: Database, live: LiveSettings) -> None:
    """Note how the schedule is; make it again, active or paused, where Temporal has lost one that was noted.

    Raises:
        SextonError: Temporal does not describe it.
    """
    deployment = live.own.require_deployment()
    stored = await describe(client, deployment)

    before = await asyncio.to_thread(db.noted_schedule)
    if stored:
        state = f"{PAUSED}{stored[0].note}" if stored[0].paused else ACTIVE
        if state != before:
            await asyncio.to_thread(db.note_schedule, state)
    elif before:
        with suppress(SextonError):  # without them rounds run, too
            await search_attributes.register(client)
        paused = before.removeprefix(PAUSED) if before.startswith(PAUSED) else None
        await apply(client, live.own, await asyncio.to_thread(live.shortest_interval), paused)
        log.warning("Temporal had lost the schedule; it was made again, %s", before)


async def change(client: Client, deployment: str, seconds: int) -> None:
    """Let an existing schedule tick every so many seconds."""
    every = [ScheduleIntervalSpec(every=dt.timedelta(seconds=seconds))]

    def update(current: ScheduleUpdateInput) -> ScheduleUpdate | None:
        schedule = current.description.schedule
        if [i.every for i in schedule.spec.intervals] == [every[0].every]:
            return None
        schedule.spec.intervals = every
        return ScheduleUpdate(schedule)

    try:
        await handle(client, deployment).update(update)
    except RPCError as e:
        if e.status is not RPCStatusCode.NOT_FOUND:
            raise


async def pause(client: Client, deployment: str, note: str) -> None:
    """Pause the schedule; running rounds continue. Raises ``NoSchedule``."""
    await _call(handle(client, deployment).pause(note=note))


async def resume(client: Client, deployment: str, note: str) -> None:
    """Resume the schedule. Raises ``NoSchedule``."""
    await _call(handle(client, deployment).unpause(note=note))


async def nudge(client: Client, deployment: str) -> None:
    """Trigger a tick now, as a slot is free; do nothing without a schedule, or where an operator has paused it."""
    try:
        if not (await handle(client, deployment).describe()).schedule.state.paused:
            # Not SKIP: a trigger while a tick runs would be dropped silently.
            await handle(client, deployment).trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
    except RPCError as e:
        if e.status is not RPCStatusCode.NOT_FOUND:
            raise


async def describe(client: Client, deployment: str) -> list[ScheduleInfo]:
    """Return the deployment's schedules; none where rounds are not scheduled.

    Raises:
        AttributesMissing: the namespace has lost search attributes of the schedule.
        SextonError: Temporal does not describe it.
    """
    missing = await search_attributes.missing(client)
    try:
        description = await asyncio.wait_for(
            handle(client, deployment).describe(), DESCRIBE_SECONDS if missing else None
        )
    except (RPCError, TimeoutError) as e:
        if isinstance(e, RPCError) and e.status is RPCStatusCode.NOT_FOUND:
            return []
        if missing:
            raise AttributesMissing(
                f"search attributes are not Keyword attributes ({', '.join(missing)}), so the schedule starts nothing; "
                "sexton schedules apply"
            ) from e
        raise SextonError(f"Temporal did not describe the schedule: {e}") from e
    started = [a.started_at for a in description.info.recent_actions]
    upcoming = description.info.next_action_times
    return [
        ScheduleInfo(
            id=description.id,
            every_seconds=description.schedule.spec.intervals[0].every.total_seconds(),
            paused=description.schedule.state.paused,
            note=description.schedule.state.note or "",
            last=_ms(max(started)) if started else None,
            next=_ms(min(upcoming)) if upcoming else None,
        )
    ]


async def explain_idle(client: Client, deployment: str) -> str:
    """Return why nothing starts by itself, and what to do; empty where the schedule is active."""
    stored = await describe(client, deployment)
    if not stored:
        return (
            "no schedule was applied: rounds, checks, purges and binlog GCs start only by hand; sexton schedules apply"
        )
    if stored[0].paused:
        note = printable(stored[0].note) or "no note"
        return f"the schedule is paused ({note}): nothing starts by itself until: sexton schedules resume"
    return ""


async def warn_if_idle(client: Client, deployment: str) -> None:
    """Log a warning if nothing starts by itself. A worker begins all the same."""
    try:
        reason = await explain_idle(client, deployment)
    except SextonError as e:
        reason = str(e)
    if reason:
        log.warning("%s", reason)


def handle(client: Client, deployment: str) -> ScheduleHandle:
    """Return the handle of the deployment's schedule."""
    return client.get_schedule_handle(ids.tick(deployment))


async def _call(request: Awaitable[None]) -> None:
    try:
        await request
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise NoSchedule("rounds are not scheduled yet; run: sexton schedules apply") from e
        raise SextonError(f"Temporal refused: {e.message}") from e


def _ms(at: dt.datetime) -> int:
    return int(at.timestamp() * 1000)
