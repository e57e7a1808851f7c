"""Show a progress bar for each kind on the operator's terminal while a round runs; nothing if stderr is no terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sexton.insight.wording import first_line
from sexton.interfaces.cli.output import styled_console
from sexton.recycle.rounds.model import RoundProgress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from sexton.insight.views import KindCounts, RoundCounts
    from sexton.recycle.rounds.model import KindProgress

PHASES_WITHOUT_PROGRESS = ("PAUSED", "BACKING_OFF")
"""Phases that are printed on a line of their own, because the bar does not move in them."""


class ProgressDisplay:
    """The bars of one round: one for its phase, one for each kind."""

    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._phase_bar = bars.add_task("asking for the round", total=None, marks="", objects="")
        self._kind_bars: dict[str, TaskID] = {}
        self._started: dict[str, tuple[float, int]] = {}
        self._phase = ""

    def update(self, progress: RoundProgress, counts: "RoundCounts") -> None:
        """Show the progress of the round.

        Args:
            progress: the workflow's own numbers, which change at the end of a range.
            counts: the database's numbers of the round, which change with each page.
        """
        self._show_phase(progress)
        by_kind = {kind.kind: kind for kind in counts.kinds}
        for kind in progress.kinds:
            self._show_kind(kind, by_kind.get(kind.kind))

    def _show_phase(self, progress: RoundProgress) -> None:
        number = f"round {progress.round} " if progress.round else ""
        backoff = f" {progress.backoff_seconds:.0f} s" if progress.backoff_seconds else ""
        text = f"{number}{progress.doing}{backoff}"
        self._bars.update(self._phase_bar, description=text)
        if progress.doing != self._phase and progress.doing in PHASES_WITHOUT_PROGRESS:
            line = f"{text}: {first_line(progress.error)}" if progress.error else text
            self._bars.console.print(line, markup=False)
        self._phase = progress.doing

    def _show_kind(self, kind: "KindProgress", counts: "KindCounts | None") -> None:
        """Show one kind: the bar moves with its objects, or with its marks where these have no objects."""
        scanned = max(kind.scanned, (counts.claimed if counts else 0) + sum(kind.kept.values()))
        objects = max(kind.objects, counts.objects if counts else 0)
        expected = max(objects, counts.expected if counts else 0)
        if kind.kind not in self._kind_bars:
            self._kind_bars[kind.kind] = self._bars.add_task(kind.kind, total=kind.due, marks="", objects="")
            self._started[kind.kind] = (time.monotonic(), objects)
        done = kind.due if kind.finished else min(scanned, kind.due)
        listed = f", {counts.listed:,} listed" if counts and counts.listed > objects else ""
        of_expected = f"/{'~' if counts and counts.estimated else ''}{expected:,}" if expected else ""
        self._bars.update(
            self._kind_bars[kind.kind],
            completed=done if kind.finished or not expected else objects,
            total=kind.due if kind.finished or not expected else expected,
            marks=f"{done:,}/{kind.due:,} marks",
            objects=f"{objects:,}{of_expected} objects{listed}{self._rate(kind.kind, objects)}",
        )

    def _rate(self, kind: str, objects: int) -> str:
        started_at, objects_then = self._started[kind]
        seconds = time.monotonic() - started_at
        return f" {(objects - objects_then) / seconds:,.0f}/s" if seconds > 1 and objects > objects_then else ""


@contextmanager
def progress_display(enabled: bool) -> Iterator[ProgressDisplay | None]:
    """Yield the display of a round's progress, or None if it is not enabled or stderr is no terminal."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = styled_console(stderr=True)
    if not (enabled and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[marks]}"),
        TextColumn("{task.fields[objects]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        yield ProgressDisplay(bars)
