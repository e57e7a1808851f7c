"""Keep what a job copies elsewhere, and prove on a live instance that protections block deletions.

Both need the database and the vaults. The self-test protects objects of due marks; a round runs and leaves them, the
protection is released, a second round deletes them. Its rounds delete only what was due, and would have been deleted
anyway.
"""

import secrets
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from sexton.insight.wording import quantity, utc
from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.operations import User, valid
from sexton.interfaces.cli.output import emit, say, wants_json
from sexton.interfaces.cli.render.results import show_fields
from sexton.interfaces.cli.render.tables import protected_objects
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.kernel.message import Message
from sexton.marks.kept import KeptCounts
from sexton.operations.registry import Call, operation_named
from sexton.protection.model import CHUNK_ITEMS, Item, Protection

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.recycle.model import RoundReport
    from sexton.storage.vaults import ProvenVaults

EXAMPLES = 5
MAX_SECONDS = 3_600
"""How long the objects stay protected if the selftest dies."""
OBJECTS_PER_PREFIX = 2
"""Objects sampled from one prefix; protecting one object of a mark keeps all of the mark."""


def register(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's name; each run needs a name of its own.")],
    owner: Annotated[str, typer.Option(help="The contact for questions about the job.")],
    objects: Annotated[list[str] | None, typer.Argument(metavar="[VAULT/KEY]...", help="Objects, or URLs.")] = None,
    prefix: Annotated[list[str] | None, typer.Option(metavar="VAULT/PREFIX", help="All keys that begin so.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one object a line; - for standard input.")] = None,
    length: Annotated[str | None, typer.Option("--for", help="How long: 30m, 12h.", metavar="LENGTH")] = None,
    valid_ts: Annotated[int | None, typer.Option(help="The watermark to wait for once the job is finished.")] = None,
    description: Annotated[str, typer.Option(help="The purpose of the job.")] = "",
    report_missing: Annotated[
        bool, typer.Option("--report-missing", help="Continue if objects are missing, and list them.")
    ] = False,
    instance: Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")] = None,
) -> None:
    """Register the objects that a job copies.

    No round claims them until the job is finished or the time is over. Objects that are missing or being deleted are
    listed. They fail the registration, unless --report-missing is given.

    Example: sexton protection register copy-7 cold/data/a.dat --owner ada --for 1h
    """
    from sexton.protection.policy import canonical, digest
    from sexton.protection.registrar import FAIL, REPORT

    renewal = valid(operation_named("protection renew", "protections"), {"job": job, "ttl_seconds": length})
    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        vaults = {v.name: v for v in service.stores.registry.vaults(name)}
        text = ""
        try:
            if file is not None:
                text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise WrongUsage(f"--file {file} cannot be read: {e}") from e
        named = {canonical(given, vaults) for given in (*(objects or ()), *filter(None, text.splitlines()))}
        items = sorted(named | {canonical(given, vaults, prefix=True) for given in prefix or ()})
        if not items:
            raise WrongUsage("nothing to protect: name objects as VAULT/KEY, a --prefix or a --file")
        request = Protection(
            instance=name, job=job, owner=owner, description=description, valid_ts=valid_ts, digest=digest(items)
        )
        with log_call(service, "protection register", name, job, blocks_deletion=True):
            service.stores.protections.open(request, renewal["ttl_seconds"])
            for number, start in enumerate(range(0, len(items), CHUNK_ITEMS)):
                service.stores.registrar.add(name, job, number, items[start : start + CHUNK_ITEMS])
            registered = service.stores.registrar.seal(name, job, on_missing=REPORT if report_missing else FAIL)
    emit(registered)
    run = f"{job} --instance {name}"
    until = f"until {utc(registered.expires_at)}; while it runs:"
    say(f"{protected_objects(registered)} of {name} protected for job {job} {until}")
    say(f"  sexton protection renew {run}; when it is done: sexton protection finish {run}")
    if (sealed := registered.sealed) is not None and sealed.claimed + sealed.missing:
        lost = f"{sealed.claimed} are being deleted and {sealed.missing} do not exist"
        say(f"WARNING: {lost}, e.g. {'; '.join(sealed.named[:EXAMPLES])}", err=True)


class SelfTest(Message):
    """The result of a selftest. Keys are ``VAULT/KEY``."""

    job: str
    objects: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()
    """Objects that were deleted although they were protected."""
    stayed: tuple[str, ...] = ()
    """Objects that still exist although they were released and due."""
    kept: KeptCounts = Field(default_factory=dict)
    """What blocked marks in the second round; this may explain ``stayed``."""

    @property
    def passed(self) -> bool:
        """Return whether no protected object was lost, and each released one was deleted."""
        return bool(self.objects) and not self.lost and not self.stayed


def selftest(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None,
    objects: Annotated[int, typer.Option(help="How many at most.", min=1, max=1_000)] = 20,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Prove that protections work.

    Protect some due objects, run a round, release them, run another round. These rounds delete everything that is due,
    as any round would. Exit code 0: each object existed after the first round and was deleted by the second.

    Example: sexton protection selftest shop --yes
    """
    from sexton.operators.controls.model import NotEnabled

    if wants_json() and not yes:
        raise WrongUsage("--json cannot ask for confirmation; add --yes")
    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        if service.stores.registry.instance(name).mode == "observe":
            raise NotEnabled(f"{name} only observes, so its rounds delete nothing; run: sexton enable {name}")
        service.stores.controls.admit(name)
        items = _sample(service.stores.vaults, name, service.due_items(name, objects), objects)
        if not items:
            raise SextonError(f"{name} has no due object that could be protected; see: sexton status")
        if not yes:
            sample = quantity(len(items), "object")
            question = f"Two rounds of {name} delete what is due, {sample} of it in the second. Continue?"
            typer.confirm(question, abort=True, err=True)
        with log_call(service, "protection selftest", name):
            result = _run(service, name, items)
    emit(result, passed=result.passed)
    show_fields(result)
    for name in result.lost:
        typer.echo(f"LOST although protected: {name}", err=True)
    for name in result.stayed:
        typer.echo(f"still there although due and released: {name}; see: sexton why {name}", err=True)
    if not result.passed:
        typer.echo("the selftest FAILED", err=True)
        raise typer.Exit(1)
    typer.echo("protections work")


def _sample(vaults: "ProvenVaults", instance: str, items: "Iterator[Item]", count: int) -> "list[Item]":
    """Return at most ``count`` existing objects, from exact keys and from prefixes."""
    objects: list[Item] = []
    for item in items:
        vault = vaults.get(instance, item.vault)
        if item.prefix:
            keys = [o.key for page in islice(vault.list(item.key), 1) for o in page[:OBJECTS_PER_PREFIX]]
        else:
            keys = [o.key for o in vault.stat([item.key])]
        objects += [Item(item.vault, key) for key in keys]
        if len(objects) >= count:
            break
    return objects[:count]


def _run(service: "Deployment", instance: str, items: Sequence[Item]) -> SelfTest:
    """Protect the objects, run a round, release them, run another round; return the result."""
    from sexton.interfaces.cli.watching import follow
    from sexton.operators.controls.store import whoami
    from sexton.protection.policy import digest

    job, stores = f"selftest:{secrets.token_hex(4)}", service.stores
    protection = Protection(instance=instance, job=job, owner=whoami(), description="selftest", digest=digest(items))
    seconds = min(MAX_SECONDS, service.settings.protection_settings().max_seconds)

    def run_round() -> "RoundReport":
        started = operation_named("round run", "rounds").run(Call(service, User(service)), {"instance": instance})
        report: RoundReport = follow("round run", service, started)
        return report

    stores.registrar.register_at_once(protection, items, seconds)
    try:
        first = run_round()
        lost = _missing(stores.vaults, instance, items)
    finally:
        stores.protections.release(instance, job, "selftest")
    second = run_round()
    missing = _missing(stores.vaults, instance, items)
    return SelfTest(
        job=job,
        objects=_names(items),
        rounds=(first.round, second.round),
        lost=_names(lost),
        stayed=_names([item for item in items if item not in missing]),
        kept=second.kept,
    )


def _missing(vaults: "ProvenVaults", instance: str, items: Sequence[Item]) -> list[Item]:
    keys_by_vault: dict[str, list[str]] = {}
    for item in items:
        keys_by_vault.setdefault(item.vault, []).append(item.key)
    existing = {
        (vault, o.key) for vault, keys in keys_by_vault.items() for o in vaults.get(instance, vault).stat(sorted(keys))
    }
    return [i for i in items if (i.vault, i.key) not in existing]


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(f"{i.vault}/{i.key}" for i in items)


COMMANDS = {"protection register": register, "protection selftest": selftest}
