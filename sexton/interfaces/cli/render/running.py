"""Render running rounds, checks and purges: how far each is, at which rate, how long it will take, what blocks it."""

from typing import TYPE_CHECKING

from sexton.insight.wording import first_line, kept_counts, time_left
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from sexton.insight.rate import RecentRate
    from sexton.insight.views import KindCounts, RoundCounts, RunningWork

MOST_KINDS = 12
"""Kinds of a round that have a line of their own; more would not fit on a screen."""


def lines_of(work: "RunningWork", rate: "RecentRate") -> list[str]:
    """Return the lines of one running work."""
    kinds = [_kind_line(k) for k in work.progress.kinds if k.due or k.objects or k.listed]
    more = [f"  and {len(kinds) - MOST_KINDS:,} more kinds"] if len(kinds) > MOST_KINDS else []
    lines = [one_line(work, rate), *kinds[:MOST_KINDS], *more]
    if work.progress.kept:
        lines.append(f"  kept so far: {kept_counts(work.progress.kept)}; see: sexton blockers {work.instance}")
    return lines


def one_line(work: "RunningWork", rate: "RecentRate") -> str:
    """Return one running work as one line, with the sums over its kinds."""
    parts = [f"{work.work} {printable(work.name)} of {work.instance}, {_span(work.elapsed_ms)}"]
    if work.work == "round":
        parts.append(progress_text(work.progress, rate))
    if work.state:
        parts.append(first_line(work.state))
    return ": ".join(part for part in parts if part)


def progress_text(counts: "RoundCounts", rate: "RecentRate") -> str:
    """Return how many objects are gone, of how many, at which rate, and how long the rest takes at this rate."""
    if not counts.expected:
        return "nothing is listed or deleted yet"
    share = "" if counts.is_guess or counts.exceeds_expected else f" ({counts.objects / counts.expected:.0%})"
    text = f"{counts.objects:,} of {expected_text(counts)} objects deleted{share}"
    if rate.per_second is None:
        return text
    return f"{text}, {rate.per_second:,.0f}/s{time_left(rate.seconds_left(counts))}"


def expected_text(counts: "RoundCounts | KindCounts") -> str:
    """Return how many objects are expected, and whether the number is an estimate or only a guess.

    It is unknown while a round finishes marks that earlier rounds claimed: those rounds listed their objects.
    """
    if counts.exceeds_expected:
        return "an unknown number of"
    if counts.is_guess:
        return f"{counts.expected:,} (a guess: none was ever listed)"
    return f"{'about ' if counts.estimated else ''}{counts.expected:,}"


def _kind_line(kind: "KindCounts") -> str:
    marks = f"{kind.removed:,} of {kind.due:,} marks"
    listed = f", {kind.listed:,} listed" if kind.listed > kind.objects else ""
    return f"  {printable(kind.kind)}: {marks}, {kind.objects:,} of {expected_text(kind)} objects{listed}"


def _span(elapsed_ms: int) -> str:
    """Return how long something has run."""
    seconds = elapsed_ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return (
        f"{seconds // 60} min {seconds % 60} s" if seconds < 7_200 else f"{seconds // 3600} h {seconds // 60 % 60} min"
    )
