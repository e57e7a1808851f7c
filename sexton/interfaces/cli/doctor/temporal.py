"""Check Temporal: does the service answer, is a worker running, do rounds start automatically?"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings

PATIENCE_SECONDS = 5.0


def examine_temporal(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield a finding about the service; if it answers, also about workers, the schedule and search attributes."""
    yield from asyncio.run(_examine(settings))


async def _examine(settings: "Settings") -> list[DoctorFinding]:
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    service = f"{settings.temporal.address}, namespace {settings.temporal.namespace}"
    todo = "start it (sexton up), or set SEXTON_TEMPORAL__ADDRESS"
    try:
        client = await asyncio.wait_for(connect(settings), PATIENCE_SECONDS)
        findings = [DoctorFinding("OK", "temporal", service)]
        if settings.deployment:
            findings += await asyncio.wait_for(_examine_deployment(client, settings), PATIENCE_SECONDS)
        return findings
    except TimeoutError:
        return [DoctorFinding("FAIL", "temporal", f"{service}: no answer within {PATIENCE_SECONDS:.0f} s", todo)]
    except SextonError as e:
        return [DoctorFinding("FAIL", "temporal", f"{service}: {e}", todo)]
    except RPCError as e:
        return [DoctorFinding("FAIL", "temporal", f"{service}: {e.message}", todo)]


async def _examine_deployment(client: "Client", settings: "Settings") -> list[DoctorFinding]:
    return [
        await _worker(client, settings),
        *await _schedule(client, settings),
        await _search_attributes(client),
    ]


async def _worker(client: "Client", settings: "Settings") -> DoctorFinding:
    from sexton.runtime.temporal.client import POLL_SECONDS, pollers

    workers = await pollers(client, settings)
    if workers == 0:
        return DoctorFinding(
            "FAIL", "worker", "no worker polls this deployment's queue: nothing is deleted", "python -m worker"
        )
    return DoctorFinding("OK", "worker", f"{workers} polled within the last {POLL_SECONDS} s")


async def _schedule(client: "Client", settings: "Settings") -> list[DoctorFinding]:
    from sexton.runtime.temporal import schedules

    stored = await schedules.describe(client, settings.require_deployment())
    if not stored:
        return [DoctorFinding("WARN", "schedule", "rounds run only when you start them", "sexton schedules apply")]
    return [
        DoctorFinding("WARN", "schedule", f"paused: {s.note or 'no note'}", "sexton schedules resume")
        if s.paused
        else DoctorFinding("OK", "schedule", f"checks every {s.every_seconds:.0f} s which instances are due")
        for s in stored
    ]


async def _search_attributes(client: "Client") -> DoctorFinding:
    from sexton.runtime.temporal import search_attributes

    missing = await search_attributes.missing(client)
    if missing:
        detail = f"{', '.join(missing)} not registered: rounds run, but the Temporal UI cannot search by them"
        return DoctorFinding("WARN", "attributes", detail, "sexton schedules apply; then restart the workers")
    return DoctorFinding("OK", "attributes", "rounds can be found by instance and state")
