"""What the doctor asks Temporal: is it there, does anybody work, do rounds start by themselves?"""

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
    """Yield one finding about the service, and where it answers, about workers, schedule and search attributes."""
    yield from asyncio.run(_ask(settings))


async def _ask(settings: "Settings") -> list[DoctorFinding]:
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    what = f"{settings.temporal.address}, namespace {settings.temporal.namespace}"
    todo = "start it (sexton up), or set SEXTON_TEMPORAL__ADDRESS"
    try:
        client = await asyncio.wait_for(connect(settings), PATIENCE_SECONDS)
        if not settings.deployment:
            return [DoctorFinding("OK", "temporal", what)]
        return [
            DoctorFinding("OK", "temporal", what),
            *await asyncio.wait_for(_there(client, settings), PATIENCE_SECONDS),
        ]
    except TimeoutError:
        return [DoctorFinding("FAIL", "temporal", f"{what}: no answer within {PATIENCE_SECONDS:.0f} s", todo)]
    except SextonError as e:
        return [DoctorFinding("FAIL", "temporal", f"{what}: {e}", todo)]
    except RPCError as e:
        return [DoctorFinding("FAIL", "temporal", f"{what}: {e.message}", todo)]


async def _there(client: "Client", settings: "Settings") -> list[DoctorFinding]:
    from sexton.runtime.temporal import schedules, search_attributes
    from sexton.runtime.temporal.client import POLL_SECONDS, pollers

    at_work = await pollers(client, settings)
    found = [DoctorFinding("OK", "worker", f"{at_work} polled within the last {POLL_SECONDS} s")]
    if at_work == 0:
        nobody = "none polls this deployment's queue: nothing is deleted"
        found = [DoctorFinding("FAIL", "worker", nobody, "python -m worker")]
    on_spark = await pollers(client, settings, spark=True)
    large = f"{settings.spark.spark_threshold_objects:,} objects"
    detail = (
        f"{on_spark} polled lately" if on_spark else f"no worker: checks and deletions of more than {large} take longer"
    )
    found.append(DoctorFinding("OK", "spark", detail))
    made = await schedules.describe(client, settings.require_deployment())
    found += [
        DoctorFinding("WARN", "schedule", f"paused: {s.note or 'no note'}", "sexton schedules resume")
        if s.paused
        else DoctorFinding("OK", "schedule", f"looks every {s.every_seconds:.0f} s for instances that are due")
        for s in made
    ]
    if not made:
        found.append(DoctorFinding("WARN", "schedule", "rounds run only when you start them", "sexton schedules apply"))
    if lacking := await search_attributes.missing(client):
        unknown = f"{', '.join(lacking)} not registered: rounds run, but are not found by them in the Temporal UI"
        found.append(DoctorFinding("WARN", "attributes", unknown, "sexton schedules apply; then restart the workers"))
    else:
        found.append(DoctorFinding("OK", "attributes", "rounds can be found by instance and state"))
    return found
