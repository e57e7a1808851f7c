"""Adapt the schedule to the interval between rounds that is in force: it ticks often enough for the shortest one."""

import asyncio
import datetime as dt
import logging
import time
from contextlib import AbstractAsyncContextManager

from temporalio.client import Client, ScheduleIntervalSpec, ScheduleUpdate, ScheduleUpdateInput
from temporalio.service import RPCError, RPCStatusCode

from config.live import MAX_AGE_SECONDS, LiveSettings
from sexton.database.engine import AWAY, first_line
from sexton.kernel.background import in_background
from sexton.runtime.temporal.schedules import handle, tick_seconds

log = logging.getLogger(__name__)
REPEAT_SECONDS = 60.0


def following(client: Client, live: LiveSettings) -> AbstractAsyncContextManager[None]:
    """Change how often the schedule ticks whenever the shortest interval in force changes, until the context ends.

    A schedule that does not exist is not created, and an operator's pause stays.
    """
    return in_background(_follow(client, live))


async def _follow(client: Client, live: LiveSettings) -> None:
    own = known = tick_seconds(live.own.recycle.recycle_interval_seconds)
    changed_at = 0.0
    while True:
        try:
            seconds = tick_seconds(await asyncio.to_thread(live.shortest_interval))
            # Again now and then: `sexton up` may have applied the interval of its settings meanwhile.
            is_old = seconds != own and time.monotonic() - changed_at > REPEAT_SECONDS
            if seconds != known or is_old:
                await change(client, live.own.require_deployment(), seconds)
                known, changed_at = seconds, time.monotonic()
        except AWAY as e:
            log.warning("the interval between rounds was not read, and is read again: %s", first_line(e))
        except RPCError as e:
            log.warning("the schedule was not changed, and is tried again: %s", e.message)
        await asyncio.sleep(MAX_AGE_SECONDS)


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
