"""``--watch``: show again and again how far running work is, from SQL alone, until it ends or Ctrl-C.

On a terminal the lines are redrawn each second. Elsewhere one line is printed every few seconds, without escape codes.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.output import styled_console
from sexton.interfaces.cli.render.running import lines_of, one_line
from sexton.kernel.errors import WrongUsage
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.insight.rate import RecentRate
    from sexton.insight.views import RunningWork

MOST_HALTS = 5
REDRAW_SECONDS = 1.0
LINE_SECONDS = 5.0
"""Between two lines where the output is no terminal."""
Read = Callable[[], "Sequence[RunningWork] | None"]


def watch(read: Read, idle: Callable[[], Sequence[str]] = lambda: ()) -> None:
    """Show what ``read`` returns until it returns None, which means that there is nothing more to wait for.

    ``idle``: returns lines for the time in which nothing runs, for example why nothing may.
    """
    from sexton.insight.rate import RecentRate

    rates: dict[tuple[str, str], RecentRate] = {}
    with _screen(lambda: ["nothing is running", *idle()]) as show:
        next_show = time.monotonic()
        while (works := read()) is not None:
            for work in works:
                rates.setdefault((work.work, work.name), RecentRate()).add(work.progress)
            if time.monotonic() >= next_show:
                next_show = show(works, rates)
            time.sleep(REDRAW_SECONDS)


def watch_before(operation: str, **given: Any) -> None:
    """Show what runs before an operation prints its result: of a round or a check until it ends, else until Ctrl-C."""
    from sexton.insight.running import read_running

    if wants_json():
        raise WrongUsage("--watch is for people; programs call it again without --watch")
    with open_database() as service:
        if operation == "status":
            instance = given["instance"]
            if instance is not None:
                service.stores.registry.instance(instance)
            watch(lambda: read_running(service.db, instance), lambda: _halts(service, instance))
            return
        work = operation.partition(" ")[0]
        number = given[work]
        service.stores.reports.round(number) if work == "round" else service.stores.checks.report(number)
        watch(lambda: [w for w in read_running(service.db) if (w.work, w.name) == (work, str(number))] or None)


def _halts(service: "Deployment", instance: str | None) -> list[str]:
    """Return a line for each halted instance, a few of them."""
    from sexton.operators.controls.policy import halt_by_instance

    controls, registry = service.stores.controls, service.stores.registry
    names = [i.id for i in registry.instances()] if instance is None else [instance]
    with service.db.read() as c:
        halted = halt_by_instance(controls.all_in(c), service.db.now(c))
    lines = [f"{name} is halted: {printable(str(why))}" for name in names if (why := halted(name)) is not None]
    return [*lines[:MOST_HALTS], *([f"and {len(lines) - MOST_HALTS:,} more"] if len(lines) > MOST_HALTS else [])]


Show = Callable[["Sequence[RunningWork]", "dict[tuple[str, str], RecentRate]"], float]
"""Show work; return from when on it may be shown again."""


@contextmanager
def _screen(idle: Callable[[], list[str]]) -> Iterator[Show]:
    """Return how to show work; ``idle``: returns the lines for none."""

    def print_lines(works: "Sequence[RunningWork]", rates: "dict[tuple[str, str], RecentRate]") -> float:
        for text in [one_line(w, rates[w.work, w.name]) for w in works] or idle():
            typer.echo(f"{_now()} {text}")
        return time.monotonic() + LINE_SECONDS

    if not styled_console().is_terminal:
        yield print_lines
        return
    from rich.live import Live
    from rich.text import Text

    with Live(console=styled_console(), auto_refresh=False, transient=True) as live:

        def redraw(works: "Sequence[RunningWork]", rates: "dict[tuple[str, str], RecentRate]") -> float:
            head = f"{_now()} UTC; Ctrl-C ends this view only"
            lines = [line for w in works for line in lines_of(w, rates[w.work, w.name])] or idle()
            live.update(Text("\n".join([head, *lines])), refresh=True)
            return 0.0

        yield redraw


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%H:%M:%S")
