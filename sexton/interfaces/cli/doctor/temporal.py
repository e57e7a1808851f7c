"""Check Temporal: does the service answer, is a worker running, do rounds start automatically?"""

import asyncio
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.kernel.errors import SextonError
from sexton.kernel.trust import is_loopback

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings
    from sexton.runtime.temporal.client import Connection

PATIENCE_SECONDS = 5.0
SOON_DAYS = 14
"""A client certificate that ends within this time should be replaced."""


def examine_temporal(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield a finding about the service; if it answers, also about workers, the schedule and search attributes."""
    yield from asyncio.run(_examine(settings))


async def _examine(settings: "Settings") -> list[DoctorFinding]:
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect, connection

    todo = "start it (sexton up), or set SEXTON_TEMPORAL__ADDRESS"
    try:
        to = connection(settings.temporal)
    except SextonError as e:
        return [DoctorFinding("FAIL", "temporal", str(e), "correct the setting")]
    service = f"{to.address}, namespace {to.namespace}"
    try:
        client = await asyncio.wait_for(connect(settings), PATIENCE_SECONDS)
        findings = [_connected(to, service)]
        if settings.deployment:
            findings += await asyncio.wait_for(_examine_deployment(client, settings), PATIENCE_SECONDS)
        return findings
    except TimeoutError:
        return [DoctorFinding("FAIL", "temporal", f"{service}: no answer within {PATIENCE_SECONDS:.0f} s", todo)]
    except SextonError as e:
        fault, _, way_out = str(e).partition("; ")
        return [DoctorFinding("FAIL", "temporal", f"{service}: {fault}", way_out or todo)]
    except RPCError as e:
        return [DoctorFinding("FAIL", "temporal", f"{service}: {e.message}", todo)]


def _connected(to: "Connection", service: str) -> DoctorFinding:
    """Return how the connection is protected, and for how long."""
    if not to.tls:
        if is_loopback(to.address.rpartition(":")[0].strip("[]")):
            return DoctorFinding("OK", "temporal", f"{service}, on this machine")
        detail = f"{service}: not encrypted, and Temporal cannot tell who connects"
        return DoctorFinding("WARN", "temporal", detail, "set temporal.tls, and tls_cert or api_key (docs/temporal.md)")
    protection = "TLS" + (", API key" if to.api_key else "")
    if (until := _certificate_end(to)) is None:
        return DoctorFinding("OK", "temporal", f"{service}, {protection}")
    detail = f"{service}, {protection}, client certificate until {until:%Y-%m-%d}"
    if until < dt.datetime.now(dt.UTC) + dt.timedelta(days=SOON_DAYS):
        return DoctorFinding("WARN", "temporal", detail, "replace temporal.tls_cert and tls_key; restart the workers")
    return DoctorFinding("OK", "temporal", detail)


def _certificate_end(to: "Connection") -> dt.datetime | None:
    """Return when the client certificate ends; None without one, or without the package that reads it."""
    from temporalio.service import TLSConfig

    if not isinstance(to.tls, TLSConfig) or to.tls.client_cert is None:
        return None
    try:
        from cryptography import x509
    except ImportError:
        return None
    return x509.load_pem_x509_certificate(to.tls.client_cert).not_valid_after_utc


async def _examine_deployment(client: "Client", settings: "Settings") -> list[DoctorFinding]:
    return [
        await _worker(client, settings),
        *await _schedule(client, settings),
        await _search_attributes(client),
    ]


async def _worker(client: "Client", settings: "Settings") -> DoctorFinding:
    from sexton.runtime.temporal.client import POLL_SECONDS, workflow_queue
    from sexton.runtime.temporal.versions import explain_no_tasks, way_out

    queue = await workflow_queue(client, settings)
    if not queue.pollers:
        return DoctorFinding(
            "FAIL", "worker", "no worker polls this deployment's queue: nothing is deleted", "sexton worker run"
        )
    if idle := explain_no_tasks(queue):
        return DoctorFinding("FAIL", "worker", f"{idle}: nothing is deleted", way_out(queue))
    return DoctorFinding("OK", "worker", f"{len(queue.pollers)} polled within the last {POLL_SECONDS} s")


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
        return DoctorFinding("WARN", "attributes", detail, "sexton schedules apply")
    return DoctorFinding("OK", "attributes", "workflows can be listed by instance, capability and state")
