"""`sexton doctor`: check everything this process depends on. Each fault has a way out; exit code 1 on a FAIL."""

import asyncio
import platform
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.doctor import surroundings
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.doctor.stored import (
    examine_limits,
    examine_notices,
    examine_roles,
    examine_settings,
    examine_spark,
    examine_tokens,
    examine_work,
    examine_workers,
    show_grants,
)
from sexton.interfaces.cli.doctor.streams import examine_binlogs, examine_wal
from sexton.interfaces.cli.output import emit_object, show_table
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from config.settings import Settings


def doctor(
    print_grants: Annotated[
        bool, typer.Option("--print-grants", help="Print the least rights that Sexton needs in S3, Kafka and SQL.")
    ] = False,
) -> None:
    """Check everything this process depends on.

    Settings, database and its roles, tokens, S3, disk, Temporal, its search attributes, workers, schedule, vaults,
    lost objects, faults and failures of the last rounds, quarantine, overdue rounds, halts, approvals, live objects,
    checks, topics, binlogs, and the webhook of notices.
    Each fault is printed with what to do about it.

    Example: sexton doctor
    """
    if print_grants:
        from config.settings import load

        show_grants(load())
        return
    findings = list(examine())
    emit_object({"items": [finding._asdict() for finding in findings], "more": False})
    show_table(("state", "about", "found", "what to do"), findings)
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
    yield surroundings.examine_deployment(settings)
    database = surroundings.examine_database(settings)
    yield database
    yield from asyncio.run(surroundings.examine_temporal(settings))
    yield surroundings.examine_s3(settings)
    yield surroundings.examine_disk()
    if database.state != "FAIL" and settings.deployment:
        yield from _examine_stores(settings)
        return
    yield from surroundings.examine_issuer(settings)
    yield from examine_limits({"": settings})


def _examine_stores(settings: "Settings") -> Iterator[DoctorFinding]:
    from sexton.database.engine import Database
    from sexton.runtime.deployment import Deployment
    from sexton.runtime.worker_rows import own_settings

    with closing(Database.open(settings.database_url, live_url=settings.live_database_url)) as db:
        service = Deployment(settings, db)
        live, stores = service.live, service.stores
        workers, instances = stores.workers.present(), stores.registry.instances()
        yield from surroundings.examine_issuer(settings)
        yield from examine_settings(live)
        yield from examine_limits({name: live.current(name) for name in ("", *(i.id for i in instances))})
        in_database = frozenset(row.key for row in live.rows() if not row.instance)
        yield from examine_workers(workers, own_settings(settings), in_database)
        yield examine_roles(stores)
        yield from examine_tokens(service)
        yield examine_spark(stores, live.current())
        yield from examine_work(service)
        yield from examine_wal(stores)
        yield from examine_binlogs(stores)
        yield from examine_notices(service)


COMMANDS = {"doctor": doctor}
