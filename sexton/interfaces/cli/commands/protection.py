"""Keep what a job copies elsewhere, and prove on a live instance that protections block deletions.

Both need the database and the vaults. The self-test protects objects, due ones and others; a round runs and leaves
them, the protection ends, a second round deletes those that are due. Its rounds delete only what was due, and would
have been deleted anyway. It never reports a watermark: that would end protections of other jobs.
"""

import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.insight.wording import duration, kept_counts, quantity, report_text, utc
from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.operations import User, valid
from sexton.interfaces.cli.output import emit, say, wants_json
from sexton.interfaces.cli.render.tables import protected_objects
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.kernel.message import Message, in_units
from sexton.marks.kept import Event, KeepReason, Kept
from sexton.operations.registry import Call, operation_named
from sexton.protection.filter import Filter
from sexton.protection.model import CHUNK_ITEMS, Item, Protection, ProtectionNotFound
from sexton.recycle.model import JOB, PARTIAL, SUCCEEDED

if TYPE_CHECKING:
    from sexton.recycle.model import RoundReport
    from sexton.runtime.deployment import Deployment

EXAMPLES = 5
MAX_SECONDS = 3_600
"""How long the objects stay protected if the selftest dies."""
OBJECTS_PER_PREFIX = 2
"""Objects sampled from one prefix; protecting one object of a mark keeps all of the mark."""
TRIED = 10
"""How many due objects are tried for each that is wanted: holds may block many."""
PARTS = 16
"""Parts of each vault in which objects without a mark are looked for."""
POLL_SECONDS = 1.0
UNSURE = frozenset({"claimed", "live", "owner_silent", "vault_whitelist", "waits"})
"""Events of `sexton why` after which the next round may leave an object that is due."""


def register(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's name; each run needs a name of its own.")],
    owner: Annotated[str, typer.Option(help="The contact for questions about the job.")],
    objects: Annotated[list[str] | None, typer.Argument(metavar="[VAULT/KEY]...", help="Objects, or URLs.")] = None,
    prefix: Annotated[list[str] | None, typer.Option(metavar="VAULT/PREFIX", help="All keys that begin so.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one object a line; - for standard input.")] = None,
    as_filter: Annotated[
        bool, typer.Option("--filter", help="Store a filter built from the objects, for millions; none is looked up.")
    ] = False,
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
    listed. They fail the registration, unless --report-missing is given. With --filter those being deleted are only
    listed, and some other objects are protected by chance.

    Example: sexton protection register copy-7 cold/data/a.dat --owner ada --for 1h
    """
    from sexton.protection.policy import canonical
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
        request = Protection(instance=name, job=job, owner=owner, description=description, valid_ts=valid_ts)
        on_missing = REPORT if report_missing else FAIL
        with log_call(service, "protection register", name, job, blocks_deletion=True):
            registered = _register(service, request, items, renewal["ttl_seconds"], as_filter, on_missing)
    emit(registered)
    run = f"{job} --instance {name}"
    until = f"until {utc(registered.expires_at)}; while it runs:"
    say(f"{protected_objects(registered)} of {name} protected for job {job} {until}")
    say(f"  sexton protection renew {run}; when it is done: sexton protection finish {run}")
    if (sealed := registered.sealed) is not None and sealed.claimed + sealed.missing:
        lost = f"{sealed.claimed} are being deleted and {sealed.missing} do not exist"
        say(f"WARNING: {lost}, e.g. {'; '.join(sealed.named[:EXAMPLES])}", err=True)


def _register(
    service: "Deployment", request: Protection, items: list[Item], seconds: int | None, as_filter: bool, on_missing: str
) -> Protection:
    """Register and seal a protection of these objects, in chunks or as one filter that is built from them."""
    from sexton.protection.policy import digest

    stores = service.stores
    if as_filter:
        object_filter = Filter.build(items, len(items))
        request = request.model_copy(update={"digest": digest((), bytes(object_filter))})
        return stores.registrar.register_at_once(request, (), seconds, object_filter)
    stores.protections.open(request.model_copy(update={"digest": digest(items)}), seconds)
    for number, start in enumerate(range(0, len(items), CHUNK_ITEMS)):
        stores.registrar.add(request.instance, request.job, number, items[start : start + CHUNK_ITEMS])
    return stores.registrar.seal(request.instance, request.job, on_missing=on_missing)


class SelfTestStep(Message):
    """One step of a selftest. ``proved``: it saw what it must see; ``wrong``: the objects for which it did not."""

    step: str
    seen: str
    proved: bool
    wrong: tuple[str, ...]


class SelfTest(Message):
    """The result of a selftest. Objects are ``VAULT/KEY``: ``due`` ones, and ``unmarked`` ones, which have no mark."""

    job: str
    due: tuple[str, ...]
    unmarked: tuple[str, ...]
    rounds: tuple[int, ...]
    steps: tuple[SelfTestStep, ...]


def selftest(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None,
    count: Annotated[int, typer.Option(help="At most so many due and other objects.", min=1, max=1_000)] = 20,
    kind: Annotated[Literal["filter", "objects"], typer.Option(help="How they are registered.")] = "filter",
    timeout: Annotated[str, typer.Option(metavar="LENGTH", help="How long each wait may take: 30m, 12h.")] = "10m",
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the objects, and reports of the rounds.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Prove that protections work, from registration to end.

    Protect some due objects and some without a mark, renew the protection, run a round, finish, wait for the owner's
    watermark, run another round. These rounds delete everything that is due, as any round would. Exit code 0: all
    objects existed after the first round, with the reason in `sexton why`; the second deleted the due ones only. Ctrl-C
    releases the protection.

    Example: sexton protection selftest shop --count 50 --yes
    """
    from sexton.operators.controls.model import NotEnabled

    if wants_json() and not yes:
        raise WrongUsage("--json cannot ask for confirmation; add --yes")
    timeout_seconds = in_units(timeout, "seconds")
    if not isinstance(timeout_seconds, int):
        raise WrongUsage(f"--timeout {timeout} is not a duration; write a number and m, h, d or w, e.g. 30m, 12h")
    with open_database() as service:
        name = service.stores.registry.resolve_instance(instance)
        if service.stores.registry.instance(name).mode == "observe":
            raise NotEnabled(f"{name} only observes, so its rounds delete nothing; run: sexton enable {name}")
        service.stores.controls.admit(name)
        test = _SelfTestRun(service, name, timeout_seconds, verbose)
        test.sample(count)
        if not yes:
            sampled = f"{quantity(len(test.due), 'sampled object')} in the second"
            typer.confirm(f"Two rounds of {name} delete what is due, {sampled}. Continue?", abort=True, err=True)
        with log_call(service, "protection selftest", name):
            result = test.run(as_filter=kind == "filter")
    passed = all(step.proved for step in result.steps)
    emit(result, passed=passed)
    if not passed:
        say("the selftest FAILED", err=True)
        raise typer.Exit(1)
    say("protections work")


@dataclass
class _SelfTestRun:
    """One selftest: its objects, and its steps so far. ``timeout_seconds``: how long each wait may take."""

    service: "Deployment"
    instance: str
    timeout_seconds: int
    verbose: bool
    job: str = field(default_factory=lambda: f"selftest:{secrets.token_hex(4)}")
    due: list[Item] = field(default_factory=list)
    unmarked: list[Item] = field(default_factory=list)
    steps: list[SelfTestStep] = field(default_factory=list)
    is_left: bool = False

    def sample(self, count: int) -> None:
        """Choose at most ``count`` due objects that nothing blocks, and as many without a mark.

        Raises:
            SextonError: there is none of one of them.
        """
        service, name = self.service, self.instance
        self.wait_for_round()
        for item in islice(service.due_items(name, TRIED * count), TRIED * count):
            vault = service.stores.vaults.get(name, item.vault)
            page = next(iter(vault.list(item.key)), ())[:OBJECTS_PER_PREFIX] if item.prefix else vault.stat([item.key])
            objects = (Item(item.vault, listed.key) for listed in page)
            self.due += [o for o in objects if o not in self.due and self.is_unblocked(o)]
            if len(self.due) >= count:
                break
        if not self.due:
            next_due = service.stores.plans.next_due(name, service.policy(name))
            wait = f"the next mark, of kind {next_due[1]}, is due {utc(next_due[0])}" if next_due else "no mark waits"
            retry = f"run it again when some are due (sexton plan new {name}) and not blocked (sexton blockers {name})"
            raise SextonError(f"{name} has no due object that nothing blocks: {wait}; {retry}")
        self.unmarked = list(islice(self.find_unmarked(count), count))
        if not self.unmarked:
            why = "so it cannot be proved that such objects stay; let the owner write one, then run it again"
            raise SextonError(f"no object without a mark was found in the vaults of {name}, {why}")
        del self.due[count:]
        text = f"{quantity(len(self.due), 'due object')}, {quantity(len(self.unmarked), 'object')} without a mark"
        self.see("sample", text)
        say(*(_names([*self.due, *self.unmarked]) if self.verbose else ()))

    def find_unmarked(self, count: int) -> Iterator[Item]:
        """Yield objects without a mark, of parts of the vaults in random order; of each part ``count`` are tried."""
        vaults, specs = self.service.stores.vaults, self.service.stores.registry.vaults(self.instance)
        parts = [(v.name, part) for v in specs for part in vaults.get(self.instance, v.name).parts(PARTS)]
        for vault, part in random.sample(parts, len(parts)):
            page = next(iter(vaults.get(self.instance, vault).list_part(part)), ())
            for listed in random.sample(page, min(len(page), count)):
                item = Item(vault, listed.key)
                if all(event.event != "marked" for event in self.events(item)):
                    yield item

    def run(self, *, as_filter: bool) -> SelfTest:
        """Take the other steps and return what all saw. Afterwards nothing is protected, also after an error."""
        objects, before = [*self.due, *self.unmarked], signal.signal(signal.SIGINT, self.leave)
        try:
            self.protect(objects, as_filter=as_filter)
            first = self.run_round("first round")
            held = first.kept.get(Kept(KeepReason.PROTECTION, self.job), 0)
            lost, unexplained = self.missing(objects), self.unexplained()
            self.see("protected", f"{len(objects) - len(lost)} of {len(objects)} objects exist", wrong=lost)
            named = len(self.due) - len(unexplained)
            text = f"kept {quantity(held, 'mark')} for the job; sexton why names it for {named} of {len(self.due)} due"
            self.see("explained", text, proved=held > 0, wrong=unexplained)
            self.finish()
            second = self.run_round("second round")
            missing = self.missing(objects)
            stayed = [item for item in self.due if item not in missing]
            lost = [item for item in self.unmarked if item in missing]
            text = f"{len(self.due) - len(stayed)} of {len(self.due)} due are gone"
            text = f"{text}; {len(self.unmarked) - len(lost)} of {len(self.unmarked)} without a mark exist"
            self.see("released", text, wrong=[*stayed, *lost])
        finally:
            with suppress(ProtectionNotFound):
                self.service.stores.protections.release(self.instance, self.job, "selftest")
                say(f"the protection of job {self.job} is released", err=True)
            signal.signal(signal.SIGINT, before)
        due, unmarked, rounds = _names(self.due), _names(self.unmarked), (first.round, second.round)
        return SelfTest(job=self.job, due=due, unmarked=unmarked, rounds=rounds, steps=tuple(self.steps))

    def protect(self, objects: Sequence[Item], *, as_filter: bool) -> None:
        """Register the objects and renew their protection; raise ``SextonError`` if a round was faster."""
        from sexton.operators.controls.store import whoami
        from sexton.protection.registrar import FAIL

        stores, name = self.service.stores, self.instance
        watermark = stores.protections.reported_watermark(name)
        longest = min(MAX_SECONDS, self.service.settings.protection_settings().max_seconds)
        valid_ts = None if watermark is None else watermark - 1  # the renewal raises it
        request = Protection(instance=name, job=self.job, owner=whoami(), description="selftest", valid_ts=valid_ts)
        registered = _register(self.service, request, sorted(objects), max(1, longest // 2), as_filter, FAIL)
        self.see("register", f"{protected_objects(registered)} for job {self.job}, until {utc(registered.expires_at)}")
        if late := [*self.missing(objects), *self.unexplained()]:
            raise SextonError(f"{_names(late)[0]} was deleted, claimed or undropped meanwhile; run the selftest again")
        valid_ts = stores.protections.reported_watermark(name) or 0
        renewed = stores.protections.renew(name, self.job, longest, valid_ts=valid_ts)
        text = f"until {utc(renewed.expires_at)}; once it is finished, until the watermark is above {renewed.valid_ts}"
        self.see("renew", text, proved=renewed.expires_at > registered.expires_at)

    def finish(self) -> None:
        """Finish the protection, and wait until the owner's watermark has passed it."""
        protections, name = self.service.stores.protections, self.instance
        finished = protections.finish(name, self.job)
        self.see("finish", f"{finished.state}, until the watermark of {name} is above {finished.valid_ts}")
        if protections.reported_watermark(name) is None:
            # A round would end it, too, and raise the alert that a watermark is missing.
            protections.release(name, self.job, "selftest: no watermark was ever reported")
            self.see("watermark", f"the owner of {name} never reported one, so the protection is released")
            return
        valid_ts, report = finished.valid_ts or 0, f"sexton protection watermark {name} N"
        text = f"the owner has reported a watermark above {valid_ts}, as with: {report}"
        self.wait(text, lambda: (protections.reported_watermark(name) or 0) > valid_ts)
        self.see("watermark", f"{protections.reported_watermark(name)}, so the next round ends the protection")

    def run_round(self, step: str) -> "RoundReport":
        """Run a round when no other one runs, and return its report."""
        from sexton.interfaces.cli.render.rounds import show_report
        from sexton.interfaces.cli.watching import follow

        self.wait_for_round()
        call = Call(self.service, User(self.service))
        started = operation_named("round run", "rounds").run(call, {"instance": self.instance})
        self.check()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ends the waiting
        try:
            report: RoundReport = follow("ROUNDS", self.service, started, self.timeout_seconds)
        finally:
            signal.signal(signal.SIGINT, self.leave)
        text = f"round {report.round} {report.state}, {report_text(report)}, kept {kept_counts(report.kept)}"
        text += f": {report.error}" if report.error else ""
        self.see(step, text, proved=report.state in (SUCCEEDED, PARTIAL))
        if self.verbose:
            show_report(report)
        return report

    def wait_for_round(self) -> None:
        """Wait until no worker works on a round of the instance."""
        from sexton.marks.sql.leases import renewed_at

        def is_idle() -> bool:
            with self.service.db.read() as c:
                return renewed_at(self.service.db, c, self.instance, JOB) is None

        self.wait(f"the running round of {self.instance} has ended", is_idle)

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; raise ``SextonError`` if it takes too long."""
        until = time.monotonic() + self.timeout_seconds
        if not is_so():
            say(f"waiting until {what}", err=True)
        while not is_so():
            self.check()
            if time.monotonic() >= until:
                raise SextonError(f"waited {duration(self.timeout_seconds)} until {what}; to wait longer: --timeout")
            time.sleep(POLL_SECONDS)

    def leave(self, *_: object) -> None:
        """Note a Ctrl-C; in the middle of a statement it would leave a connection that cannot be used."""
        self.is_left = True

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` after a Ctrl-C."""
        if self.is_left:
            raise KeyboardInterrupt

    def see(self, step: str, seen: str, *, proved: bool = True, wrong: Sequence[Item] = ()) -> None:
        """Record and print what a step saw, and the objects that are not as they must be."""
        self.steps.append(SelfTestStep(step=step, seen=seen, proved=proved and not wrong, wrong=_names(wrong)))
        say(f"{step}: {seen}{'' if self.steps[-1].proved else ': NOT PROVED'}")
        say(*(f"not as it must be: {name}; see: sexton why {name}" for name in _names(wrong)), err=True)

    def events(self, item: Item) -> Sequence[Event]:
        """Return what `sexton why` shows of an object."""
        self.check()
        stories, _ = self.service.stories(f"{item.vault}/{item.key}", self.instance)
        return [event for story in stories for event in story.events]

    def is_unblocked(self, item: Item) -> bool:
        """Return whether the next round deletes an object, as far as is known."""
        events = self.events(item)
        names = {event.event for event in events}
        return "next_round" in names and names.isdisjoint(UNSURE) and not any(event.blocks for event in events)

    def unexplained(self) -> list[Item]:
        """Return the due objects for which `sexton why` does not name this protection."""
        return [o for o in self.due if not any(e.event == "protection" and self.job in e.text for e in self.events(o))]

    def missing(self, items: Sequence[Item]) -> list[Item]:
        """Return the objects that do not exist."""
        from sexton.check.object_lookup import existing

        keys = {vault: [i.key for i in items if i.vault == vault] for vault in {i.vault for i in items}}
        objects = existing(self.service.stores.vaults, self.instance, keys)
        return [item for item in items if (item.vault, item.key) not in objects]


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(f"{i.vault}/{i.key}" for i in items)


COMMANDS = {"protection register": register, "protection selftest": selftest}
