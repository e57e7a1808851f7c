"""`sexton doctor`: check everything this process depends on. Each fault has a way out; exit code 1 on a FAIL."""

import platform
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from sexton.interfaces.cli.doctor.binlogs import examine_binlogs
from sexton.interfaces.cli.doctor.finding import DoctorFinding, show_findings
from sexton.interfaces.cli.doctor.grants import show_grants
from sexton.interfaces.cli.doctor.roles import examine_roles
from sexton.interfaces.cli.doctor.temporal import examine_temporal
from sexton.interfaces.cli.doctor.tokens import examine_issuer, examine_tokens
from sexton.interfaces.cli.doctor.topics import examine_wal
from sexton.interfaces.cli.doctor.work import examine_work
from sexton.interfaces.cli.doctor.workers import examine_settings, examine_workers
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.runtime.stores import DeploymentStores

CONNECT_SECONDS = 3.0
MIN_FREE_GIB = 1.0


def doctor(
    print_grants: Annotated[
        bool, typer.Option("--print-grants", help="Print the least rights that Sexton needs in S3, Kafka and SQL.")
    ] = False,
) -> None:
    """Check everything this process depends on.

    Settings, database and its roles, tokens, S3, disk, Temporal, workers, schedule, vaults, halts, topics and binlogs.
    Each fault is printed with what to do about it.

    Example: sexton doctor
    """
    if print_grants:
        from config.settings import load

        show_grants(load())
        return
    findings = list(examine())
    if wants_json():
        emit_list([finding._asdict() for finding in findings])
    else:
        show_findings(findings)
    if any(finding.state == "FAIL" for finding in findings):
        raise typer.Exit(1)


def examine() -> Iterator[DoctorFinding]:
    """Yield one finding per dependency, in the order in which faults should be fixed."""
    from config.settings import load

    yield DoctorFinding("OK", "python", f"{platform.python_version()} at {sys.executable}")
    try:
        settings = load()
    except SextonError as e:
        yield DoctorFinding("FAIL", "settings", str(e), "correct it; the other dependencies are not checked")
        return
    yield DoctorFinding("OK", "settings", "every key is known, every value is within its bounds")
    yield _deployment(settings)
    database = _database(settings)
    yield database
    yield from examine_temporal(settings)
    yield _s3(settings)
    yield _disk(settings)
    if not _reports_workers(settings, database):
        yield _metrics(settings)
    yield from examine_issuer(settings)
    if database.state != "FAIL" and settings.deployment:
        yield from _examine_stores(settings)
    else:
        yield from _limits({"": settings})


def _limits(settings: "Mapping[str, Settings]") -> Iterator[DoctorFinding]:
    """Yield a finding if the share of live objects that is deleted without approval is not limited.

    ``settings``: those in force for each instance, and for all under the empty name.
    """
    unlimited = [name for name, s in settings.items() if s.recycle.max_delete_fraction >= 1]
    if unlimited:
        scope = "" if "" in unlimited else f"{', '.join(unlimited)}: "
        detail = (
            f"{scope}max_delete_fraction = 1: no share of the live objects is too large to be deleted without approval"
        )
        yield DoctorFinding("WARN", "limits", detail, "lower recycle.max_delete_fraction; the default is 0.1")


def _examine_stores(settings: "Settings") -> Iterator[DoctorFinding]:
    from sexton.database.engine import Database
    from sexton.runtime.stores import DeploymentStores, live_settings
    from sexton.runtime.workers.store import own_settings

    db = Database.open(settings.database_url, live_url=settings.live_database_url)
    try:
        live = live_settings(db, settings)
        stores = DeploymentStores(db, live.engine_settings())
        yield from examine_settings(live)
        yield from _limits({name: live.current(name) for name in ("", *(i.id for i in stores.registry.instances()))})
        in_database = frozenset(row.key for row in live.rows() if not row.instance)
        yield from examine_workers(stores.workers.present(), own_settings(settings), in_database)
        yield from examine_roles(stores)
        yield from examine_tokens(stores)
        yield _spark(stores, live.current())
        yield from examine_work(stores)
        yield from examine_wal(stores)
        yield from examine_binlogs(stores)
    finally:
        db.close()


def _reports_workers(settings: "Settings", database: DoctorFinding) -> bool:
    """Return whether workers report in the database: they name the address of their own metrics."""
    from sexton.database.engine import Database
    from sexton.runtime.stores import DeploymentStores

    if database.state == "FAIL" or not settings.deployment:
        return False
    db = Database.open(settings.database_url, live_url=settings.live_database_url)
    try:
        return bool(DeploymentStores(db, settings.engine_settings()).workers.present())
    finally:
        db.close()


def _spark(stores: "DeploymentStores", settings: "Settings") -> DoctorFinding:
    slots, free = stores.workers.count_slots()
    if slots:
        return DoctorFinding("OK", "spark", f"Spark workers take {slots} ranges or checks at once, {free} more now")
    threshold = f"{settings.spark.spark_threshold_objects:,} objects"
    return DoctorFinding("OK", "spark", f"no worker: checks and deletions of more than {threshold} take longer")


def _deployment(settings: "Settings") -> DoctorFinding:
    try:
        name = settings.require_deployment()
    except SextonError as e:
        return DoctorFinding("FAIL", "deployment", "no id", str(e))
    if name.startswith(("demo-", "test-")):
        return DoctorFinding(
            "WARN", "deployment", f"{name}: commands may move its clock", "use another id in production"
        )
    return DoctorFinding("OK", "deployment", name)


def _database(settings: "Settings") -> DoctorFinding:
    from config.settings import masked
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


def _s3(settings: "Settings") -> DoctorFinding:
    endpoint = settings.s3.endpoint_url
    if not endpoint:
        return DoctorFinding("OK", "s3", "AWS, unless a vault names its own endpoint")
    try:
        settings.trust().check(endpoint)
    except SextonError as e:
        return DoctorFinding("FAIL", "s3", str(e), "set SEXTON_S3__ENDPOINT_URL, or SEXTON_INSECURE_HTTP")
    parts = urlsplit(endpoint)
    fault = _unreachable(str(parts.hostname), parts.port or {"http": 80, "https": 443}[parts.scheme])
    if fault:
        todo = "start it (sexton up), or set SEXTON_S3__ENDPOINT_URL"
        return DoctorFinding("FAIL", "s3", f"{endpoint}: {fault}", todo)
    return DoctorFinding("OK", "s3", endpoint)


def _disk(_settings: "Settings") -> DoctorFinding:
    from config.sources import home

    place = home().absolute()
    existing = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    if free < MIN_FREE_GIB:
        todo = f"make at least {MIN_FREE_GIB:.0f} GiB available"
        return DoctorFinding("WARN", "disk", f"{free:.1f} GiB free at {existing}", todo)
    return DoctorFinding("OK", "disk", f"{free:.1f} GiB free at {existing}")


def _metrics(settings: "Settings") -> DoctorFinding:
    listen = settings.metrics.listen
    if not listen:
        return DoctorFinding("OK", "metrics", "off; metrics.listen is empty")
    host, _, port = listen.rpartition(":")
    fault = _unreachable(host.strip("[]"), int(port))
    if fault and listen == type(settings.metrics)().listen:  # the default reaches only workers of this machine
        return DoctorFinding("OK", "metrics", f"no worker on this machine answers at {listen}")
    if fault:
        todo = "start a worker with this setting: sexton worker run"
        return DoctorFinding("WARN", "metrics", f"no worker answers at {listen}: {fault}", todo)
    return DoctorFinding("OK", "metrics", f"a worker answers at {listen}")


def _unreachable(host: str, port: int) -> str:
    """Return why a connection fails; empty if it succeeds."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as e:
        return e.strerror or str(e)
    return ""


COMMANDS = {"doctor": doctor}
