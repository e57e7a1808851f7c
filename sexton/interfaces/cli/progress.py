"""A bar per kind on the operator's terminal while a round runs; nothing where stderr is no terminal."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sexton.interfaces.cli.output import brief
from sexton.recycle.model import RoundProgress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from sexton.insight.status import KindProgressRow

PHASES = ("PAUSED", "BACKING_OFF")
"""What is said in a line of its own, because the bar tells nothing of it."""


class ProgressDisplay:
    """What the operator sees of one round."""

    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._phase = bars.add_task("asking for the round", total=None, marks="", objects="")
        self._kinds: dict[str, TaskID] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._doing = ""

    def tell(self, progress: RoundProgress, gone: Mapping[str, "KindProgressRow"]) -> None:
        """Show how far it is: ``progress`` moves at a range's end, ``gone`` (rows of the round) page by page."""
        number = f"round {progress.round} " if progress.round else ""
        waits = f" {progress.backoff_seconds:.0f} s" if progress.backoff_seconds else ""
        told = f"{number}{progress.doing}{waits}"
        self._bars.update(self._phase, description=told)
        if progress.doing != self._doing and progress.doing in PHASES:
            self._bars.console.print(f"{told}: {brief(progress.error)}" if progress.error else told, markup=False)
        self._doing = progress.doing
        for kind in progress.kinds:
            rows = gone.get(kind.kind)
            looked = max(kind.scanned, (rows.claimed if rows else 0) + sum(kind.kept.values()))
            objects = max(kind.objects, rows.objects if rows else 0)
            if kind.kind not in self._kinds:
                self._kinds[kind.kind] = self._bars.add_task(kind.kind, total=kind.due, marks="", objects="")
                self._began[kind.kind] = (time.monotonic(), objects)
            text = f"{objects:,} objects{self._rate(kind.kind, objects)}"
            done = kind.due if kind.finished else min(looked, kind.due)
            marks = f"{done:,}/{kind.due:,} marks"
            self._bars.update(self._kinds[kind.kind], completed=done, total=kind.due, marks=marks, objects=text)

    def _rate(self, kind: str, objects: int) -> str:
        since, before = self._began[kind]
        seconds = time.monotonic() - since
        return f" {(objects - before) / seconds:,.0f}/s" if seconds > 1 and objects > before else ""


@contextmanager
def watching(wanted: bool) -> Iterator[ProgressDisplay | None]:
    """Yield what shows a round's progress, or None where nobody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
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
