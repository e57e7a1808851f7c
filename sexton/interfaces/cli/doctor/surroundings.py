"""Check what a process needs: deployment, database, S3, disk, the issuer of JWTs, Temporal.

Of Temporal: does the service answer, is a worker running, do rounds start automatically?
"""

import asyncio
import datetime as dt
import importlib.util
import shutil
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.kernel.errors import SextonError
from sexton.kernel.trust import is_loopback

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings
    from sexton.runtime.temporal.client import Connection

CONNECT_SECONDS = 3.0
MIN_FREE_GIB = 1.0
PATIENCE_SECONDS = 5.0
SOON_DAYS = 14
"""A client certificate that ends within this time should be replaced."""


def examine_deployment(settings: "Settings") -> DoctorFinding:
    """Return whether the deployment has an id, and one that lets no command move the clock."""
    try:
        name = settings.require_deployment()
    except SextonError as e:
        return DoctorFinding("FAIL", "deployment", "no id", str(e))
    if name.startswith(("demo-", "test-")):
        todo = "use another id in production"
        return DoctorFinding("WARN", "deployment", f"{name}: commands may move its clock", todo)
    return DoctorFinding("OK", "deployment", name)


def examine_database(settings: "Settings") -> DoctorFinding:
    """Return whether the database answers, and belongs to the deployment."""
    from config.sources import masked
    from sexton.database import schema

    try:
        shown = masked(settings.require_database_url())
    except SextonError as e:
        return DoctorFinding("FAIL", "database", "no URL", str(e))
    if not settings.deployment:
        return DoctorFinding("WARN", "database", f"{shown}: not checked", "set the deployment id first")
    try:
        status = schema.status(settings.database_url, settings.deployment)
    except SextonError as e:
        return DoctorFinding("FAIL", "database", f"{shown}: {e}", "fix it, then run: sexton doctor")
    if "clock moved" in status:
        todo = "retentions end early: never store real data here"
        return DoctorFinding("WARN", "database", f"{shown}: {status}", todo)
    return DoctorFinding("OK", "database", f"{shown}: {status}")


def examine_s3(settings: "Settings") -> DoctorFinding:
    """Return whether the endpoint of S3 can be reached, and may be used."""
    endpoint = settings.s3.endpoint_url
    if not endpoint:
        return DoctorFinding("OK", "s3", "AWS, unless a vault names its own endpoint")
    try:
        settings.trust().check(endpoint)
    except SextonError as e:
        return DoctorFinding("FAIL", "s3", str(e), "set SEXTON_S3__ENDPOINT_URL, or SEXTON_INSECURE_HTTP")
    parts = urlsplit(endpoint)
    address = str(parts.hostname), parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
    except OSError as e:
        todo = "start it (sexton up), or set SEXTON_S3__ENDPOINT_URL"
        return DoctorFinding("FAIL", "s3", f"{endpoint}: {e.strerror or e}", todo)
    return DoctorFinding("OK", "s3", endpoint)


def examine_disk() -> DoctorFinding:
    """Return whether the disk with Sexton's home has room."""
    from config.sources import home

    place = home().absolute()
    existing = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    detail, todo = f"{free:.1f} GiB free at {existing}", f"make at least {MIN_FREE_GIB:.0f} GiB available"
    return DoctorFinding("WARN", "disk", detail, todo) if free < MIN_FREE_GIB else DoctorFinding("OK", "disk", detail)


def examine_issuer(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield a finding about the issuer of JWTs; none if there is none."""
    section = settings.oidc
    if not section.issuer:
        return
    todo = "JWTs are refused, if not now then when the known keys are too old; see [oidc] in docs/api.md"
    if importlib.util.find_spec("jwt") is None:
        yield DoctorFinding("FAIL", "oidc", "PyJWT is not installed", "pip install 'sexton[api]'")
        return
    from sexton.operators.access.model import IssuerAway
    from sexton.operators.access.oidc import count_keys

    try:
        count = count_keys(section.jwks)
    except IssuerAway as e:
        yield DoctorFinding("FAIL", "oidc", str(e), todo)
        return
    detail = f"{count} keys of {section.issuer} can verify tokens"
    yield DoctorFinding("OK", "oidc", detail) if count else DoctorFinding("FAIL", "oidc", detail, todo)


async def examine_temporal(settings: "Settings") -> list[DoctorFinding]:
    """Return a finding about the service; if it answers, also about workers, the schedule and search attributes."""
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect, connection

    try:
        to = connection(settings.temporal)
    except SextonError as e:
        return [DoctorFinding("FAIL", "temporal", str(e), "correct the setting")]
    service, todo = f"{to.address}, namespace {to.namespace}", "start it (sexton up), or set SEXTON_TEMPORAL__ADDRESS"
    try:
        client = await asyncio.wait_for(connect(settings), PATIENCE_SECONDS)
        found = [_connected(to, service)]
        if settings.deployment:
            found += await asyncio.wait_for(_examine_deployment(client, settings), PATIENCE_SECONDS)
        return found
    except TimeoutError:
        fault = f"no answer within {PATIENCE_SECONDS:.0f} s"
    except SextonError as e:
        fault, _, way_out = str(e).partition("; ")
        todo = way_out or todo
    except RPCError as e:
        fault = e.message
    return [DoctorFinding("FAIL", "temporal", f"{service}: {fault}", todo)]


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
    from sexton.runtime.temporal import schedules, search_attributes, waiting

    found = [await examine_polling(client, settings)]
    found += [DoctorFinding("FAIL", "code", str(row), row.way_out) for row in await waiting.failing(client, settings)]
    stored = await schedules.describe(client, settings.require_deployment())
    if not stored:
        found.append(DoctorFinding("WARN", "schedule", "rounds run only when you start them", "sexton schedules apply"))
    for s in stored:
        active = DoctorFinding("OK", "schedule", f"checks every {s.every_seconds:.0f} s which instances are due")
        paused = DoctorFinding("WARN", "schedule", f"paused: {s.note or 'no note'}", "sexton schedules resume")
        found.append(paused if s.paused else active)
    if wrong := await search_attributes.of_another_type(client):
        detail = f"{', '.join(wrong)}: registered with another type than Keyword, so that no run is found by it"
        todo = "remove it in Temporal (operator search-attribute remove), then: sexton schedules apply"
        return [*found, DoctorFinding("FAIL", "attributes", detail, todo)]
    if missing := await search_attributes.missing(client):
        detail = f"{', '.join(missing)} not registered: rounds run, but the Temporal UI cannot search by them"
        return [*found, DoctorFinding("WARN", "attributes", detail, "sexton schedules apply")]
    return [*found, DoctorFinding("OK", "attributes", "workflows can be listed by instance, capability and state")]


async def examine_polling(client: "Client", settings: "Settings") -> DoctorFinding:
    """Return whether a worker polls the deployment's queue, and gets tasks of it."""
    from sexton.runtime.temporal.client import POLL_SECONDS, workflow_queue
    from sexton.runtime.temporal.versions import explain_no_tasks, way_out

    queue = await workflow_queue(client, settings)
    if not queue.pollers:
        detail = "no worker polls this deployment's queue: nothing is deleted"
        return DoctorFinding("FAIL", "worker", detail, "sexton worker run")
    if idle := explain_no_tasks(queue):
        return DoctorFinding("FAIL", "worker", f"{idle}: nothing is deleted", way_out(queue))
    return DoctorFinding("OK", "worker", f"{len(queue.pollers)} polled within the last {POLL_SECONDS} s")
