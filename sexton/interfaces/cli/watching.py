"""Show again and again how far running work is, from SQL alone, until it ends or Ctrl-C.

On a terminal the lines are redrawn each second. Elsewhere one line is printed every few seconds, without escape codes.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.output import styled_console
from sexton.interfaces.cli.render.running import lines_of, one_line

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.insight.rate import RecentRate
    from sexton.insight.views import RunningWork

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


def watch_one(service: "Deployment", work: str, number: int) -> None:
    """Show one round or check until it no longer runs."""
    from sexton.insight.progress import read_running

    def read() -> "Sequence[RunningWork] | None":
        return [w for w in read_running(service.db) if (w.work, w.name) == (work, str(number))] or None

    watch(read)


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
