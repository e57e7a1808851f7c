"""Show how far work is, from SQL alone, until it ends or Ctrl-C: with ``--watch``, or while a command waits for it.

On a terminal the lines are redrawn each second. Elsewhere one line is printed every few seconds, without escape codes.
"""

import datetime as dt
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sexton.database.engine import AWAY
from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.output import styled_console, wants_json
from sexton.interfaces.cli.render.rounds import lines_of, one_line
from sexton.kernel.errors import SextonError, WrongUsage
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from rich.live import Live

    from sexton.insight.views import RunningWork
    from sexton.operations.fields import StartedWork
    from sexton.runtime.deployment import Deployment

MOST_HALTS = 5
REDRAW_SECONDS = 1.0
LINE_SECONDS = 5.0
"""Between two lines where the output is no terminal."""


def watch_before(operation: str, **given: Any) -> None:
    """Show what runs before an operation prints its result: of a round or a check until it ends, else until Ctrl-C."""
    from sexton.insight.progress import read_running
    from sexton.operators.controls.policy import halt_by_instance

    if wants_json():
        if operation != "status":  # its result follows, and is all that a program reads
            return
        raise WrongUsage("--watch is for people; programs call it again without --watch")
    with open_database() as service:
        instance, work = given.get("instance"), operation.partition(" ")[0]
        if instance is not None:
            service.stores.registry.instance(instance)
        elif work == "round":
            service.stores.reports.round(given[work])
        elif work == "check":
            service.stores.checks.report(given[work])

        def idle() -> list[str]:
            """Return that nothing is running, and a line for each halted instance, a few of them."""
            registry = service.stores.registry
            names = [i.id for i in registry.instances()] if instance is None else [instance]
            with service.db.read() as c:
                halted = halt_by_instance(service.stores.controls.all_in(c), service.db.now(c))
            lines = [f"{name} is halted: {printable(str(why))}" for name in names if (why := halted(name)) is not None]
            more = [f"and {len(lines) - MOST_HALTS:,} more"] if len(lines) > MOST_HALTS else []
            return ["nothing is running", *lines[:MOST_HALTS], *more]

        with screen(idle) as show:
            while True:
                works = read_running(service.db, instance)
                if operation != "status":
                    works = tuple(w for w in works if (w.work, w.name) == (work, str(given[work])))
                    if not works:
                        return
                show(works)
                time.sleep(REDRAW_SECONDS)


@contextmanager
def screen(
    idle: Callable[[], list[str]], *, stderr: bool = False
) -> "Iterator[Callable[[Sequence[RunningWork]], None]]":
    """Return how to show work; ``idle``: returns the lines for none."""
    from rich.text import Text

    from sexton.insight.views import RecentRate

    console = styled_console(stderr=stderr)
    rates: dict[tuple[str, str], RecentRate] = defaultdict(RecentRate)
    next_lines = 0.0

    def now() -> str:
        return dt.datetime.now(dt.UTC).strftime("%H:%M:%S")

    def show(works: "Sequence[RunningWork]", live: "Live | None" = None) -> None:
        nonlocal next_lines
        for work in works:
            rates[work.work, work.name].add(work.progress)
        if live is not None:
            lines = [line for w in works for line in lines_of(w, rates[w.work, w.name])] or idle()
            live.update(Text("\n".join([f"{now()} UTC; Ctrl-C ends this view only", *lines])), refresh=True)
        elif time.monotonic() >= next_lines:
            for line in [one_line(w, rates[w.work, w.name]) for w in works] or idle():
                typer.echo(f"{now()} {line}", err=stderr)
            next_lines = time.monotonic() + LINE_SECONDS

    if not console.is_terminal:
        yield show
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield partial(show, live=live)


def follow(kind: str, service: "Deployment", started: "StartedWork", seconds: float | None = None) -> Any:
    """Return the report of started work of a kind ("ROUNDS", …); that of a failed round is read from the database.

    Ctrl-C ends the waiting, not the work; so do the ``seconds``, after which ``SextonError`` is raised.
    """
    from temporalio.exceptions import ApplicationError, TerminatedError

    from sexton.runtime.temporal import works
    from workflows import ids

    work = getattr(works, kind)
    run, subject = (started.workflow, started.run), started.topic or started.instance
    try:
        with ExitStack() as stack:
            if work is works.ROUNDS and styled_console(stderr=True).is_terminal and not wants_json():
                stack.enter_context(_shown(service, subject))
            notify = partial(typer.echo, err=True)
            return work.follow(service.settings, run, subject, notify, seconds)
    except KeyboardInterrupt:
        typer.echo(f"stopped waiting; {work.goes_on(subject)}", err=True)
        raise
    except SextonError as e:
        cause = getattr(e.__cause__, "cause", None)
        if isinstance(cause, ApplicationError) and cause.type == ids.ROUND_FAILED:
            return service.stores.reports.report(int(cause.details[0]))
        if work is works.ROUNDS and isinstance(cause, TerminatedError):
            raise SextonError(
                f"{e}; once its lease has ended, the next round deletes what it claimed; to prevent that: "
                f"sexton stop {subject} --reason TEXT"
            ) from e
        raise


@contextmanager
def _shown(service: "Deployment", instance: str) -> Iterator[None]:
    """Show at the terminal how far the round of an instance is, until the block ends."""
    from sexton.insight.progress import read_running

    is_over = threading.Event()

    def redraw() -> None:
        with screen(lambda: ["the round has not begun"], stderr=True) as show:
            while not is_over.wait(REDRAW_SECONDS):
                try:
                    show([work for work in read_running(service.db, instance) if work.work == "round"])
                except AWAY:  # the round goes on without the database that this command reads
                    continue

    view = threading.Thread(target=redraw, daemon=True)
    view.start()
    try:
        yield
    finally:
        is_over.set()
        view.join()
