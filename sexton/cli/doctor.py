"""`sexton doctor`: is everything this process depends on there? Each answer says what to do; exit code 1 on a FAIL."""

import json
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

import typer

from sexton.errors import SextonError

if TYPE_CHECKING:
    from config.settings import Settings

REACH_SECONDS = 3.0
DISK_FLOOR_GIB = 1.0


class Finding(NamedTuple):
    """One line of the doctor; `todo` is empty where all is well."""

    state: Literal["OK", "WARN", "FAIL"]
    about: str
    detail: str
    todo: str = ""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Check settings, database, Temporal, S3, disk, the worker and every vault; say what to do about each fault.

    Example: sexton doctor
    """
    findings = list(examine())
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        _print(findings)
    if any(finding.state == "FAIL" for finding in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """One finding per dependency, in the order in which faults should be mended."""
    from config.settings import load

    yield Finding("OK", "python", f"{platform.python_version()} at {sys.executable}")
    try:
        settings = load()
    except SextonError as e:
        yield Finding("FAIL", "settings", str(e), "correct it; the rest is not examined")
        return
    yield Finding("OK", "settings", "every key known, every value within its bounds")
    found = {check: check(settings) for check in (_deployment, _database, _temporal, _s3, _disk)}
    yield from found.values()
    if found[_temporal].state == "OK" and settings.deployment:
        yield _worker(settings)
    if found[_database].state != "FAIL" and settings.deployment:
        yield _vaults(settings)


def _deployment(settings: "Settings") -> Finding:
    try:
        name = settings.require_deployment()
    except SextonError as e:
        return Finding("FAIL", "deployment", "no id", str(e))
    if name.startswith(("demo-", "test-")):
        return Finding("WARN", "deployment", f"{name}: its clock may be moved", "use another id in production")
    return Finding("OK", "deployment", name)


def _database(settings: "Settings") -> Finding:
    from pathlib import Path

    from config.settings import masked
    from sexton.db import schema

    sqlite = settings.database_url.removeprefix("sqlite:///")
    shown = masked(settings.database_url)
    if sqlite != settings.database_url and not Path(sqlite).is_file():
        # Connecting would create it.
        return Finding("FAIL", "database", f"{shown}: no such file", "run: sexton init, or sexton up")
    if not settings.deployment:
        return Finding("WARN", "database", f"{shown}: not examined", "set the deployment id first")
    try:
        status = schema.status(settings.database_url, settings.deployment)
    except SextonError as e:
        return Finding("FAIL", "database", f"{shown}: {e}", "mend it, then run: sexton doctor")
    if "clock moved" in status:
        return Finding("WARN", "database", f"{shown}: {status}", "retentions end early: never keep real data here")
    return Finding("OK", "database", f"{shown}: {status}")


def _temporal(settings: "Settings") -> Finding:
    host, _, port = settings.temporal.address.rpartition(":")
    fault = _unreachable(host.strip("[]"), int(port))
    todo = "start it (sexton up), or set SEXTON_TEMPORAL__ADDRESS"
    return _reached("temporal", f"{settings.temporal.address}, namespace {settings.temporal.namespace}", fault, todo)


def _worker(settings: "Settings") -> Finding:
    import asyncio

    from sexton.temporal.client import connect, pollers

    async def count() -> int:
        return await pollers(await connect(settings), settings)

    try:
        found = asyncio.run(count())
    except SextonError as e:
        return Finding("WARN", "worker", "not examined", str(e))
    if found == 0:
        return Finding("FAIL", "worker", "none polls this deployment's queue: nothing is deleted", "python -m worker")
    return Finding("OK", "worker", f"{found} polling")


def _vaults(settings: "Settings") -> Finding:
    from sexton.db.engine import Database
    from sexton.registry.store import Registry
    from sexton.storage.port import VaultFault
    from sexton.storage.vaults import ProvenVaults

    db = Database.open(settings.database_url)
    try:
        registry = Registry(db)
        specs = registry.vaults()
        vaults = ProvenVaults(
            registry.vault,
            settings.require_deployment(),
            settings.s3.endpoint_url,
            last_round=registry.last_round,
        )
        faults = []
        for spec in specs:
            try:
                vaults.get(spec.instance, spec.name)
            except VaultFault as e:
                faults.append(f"{spec.instance}/{spec.name}: {e.reason}")
    finally:
        db.close()
    if faults:
        return Finding("FAIL", "vaults", "; ".join(faults), "nothing in them is deleted; see: sexton vault list")
    return Finding("OK", "vaults", f"{len(specs)}, each proved to be ours")


def _s3(settings: "Settings") -> Finding:
    endpoint = settings.s3.endpoint_url
    if not endpoint:
        return Finding("OK", "s3", "AWS, unless a vault names its own endpoint")
    parts = urlsplit(endpoint)
    fault = _unreachable(str(parts.hostname), parts.port or {"http": 80, "https": 443}[parts.scheme])
    return _reached("s3", endpoint, fault, "start it (sexton up), or set SEXTON_S3__ENDPOINT_URL")


def _disk(_settings: "Settings") -> Finding:
    from config.sources import home

    place = home().absolute()
    existing = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    if free < DISK_FLOOR_GIB:
        return Finding("WARN", "disk", f"{free:.1f} GiB free at {existing}", f"free at least {DISK_FLOOR_GIB:.0f} GiB")
    return Finding("OK", "disk", f"{free:.1f} GiB free at {existing}")


def _unreachable(host: str, port: int) -> str:
    """Why nothing answers there; empty where something does."""
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as e:
        return e.strerror or str(e)
    return ""


def _reached(about: str, what: str, fault: str, todo: str) -> Finding:
    return Finding("FAIL", about, f"{what}: {fault}", todo) if fault else Finding("OK", about, what)


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
    table = Table(box=None, pad_edge=False)
    for heading in ("", "about", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for f in findings:
        table.add_row(Text(f.state, style=colour[f.state]), f.about, Text(f.detail), Text(f.todo))
    Console().print(table)
