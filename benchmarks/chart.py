"""Draws the kept results as one PNG: who deletes how fast, what safety costs, what choosing and dropping cost."""

from statistics import median
from typing import Any

from benchmarks.results import CHART, kept
from sexton.kernel.errors import SextonError

OURS, PEER, PLAIN = "#2b6cb0", "#a0aec0", "#68a691"
LABELS = {"direct": "Sexton", "unsafe": "Sexton\nwithout\nsafety", "boto3": "boto3", "rclone": "rclone\ndelete"}


class NoMatplotlib(SextonError):
    """The chart needs a package that only benchmarks need."""


def draw() -> None:
    """Write the chart of what is kept, where any of it is drawn.

    Raises:
        NoMatplotlib: it is not installed.
    """
    try:
        import matplotlib
    except ImportError as e:
        raise NoMatplotlib("the chart needs matplotlib: pip install -e '.[bench]'") from e
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawers = {"delete": _delete, "due": _due, "drop": _drop}
    results = {name: r for name, r in kept().items() if name in drawers}
    if not results:
        return
    figure, axes = pyplot.subplots(1, len(results), figsize=(5 * len(results), 4), squeeze=False)
    for ax, (name, result) in zip(axes[0], results.items(), strict=True):
        drawers[name](ax, result)
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    CHART.parent.mkdir(exist_ok=True)
    figure.savefig(CHART, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _delete(ax: Any, result: dict[str, Any]) -> None:
    """A bar for the median of each contender, a dot for each run."""
    objects = int(result["sizes"]["objects"].replace(",", ""))
    for at, (name, seconds) in enumerate(result["runs"]["seconds"].items()):
        rates = [objects / s for s in seconds]
        colour = {"direct": OURS, "unsafe": PLAIN}.get(name, PEER)
        ax.bar(at, median(rates), color=colour)
        ax.plot([at] * len(rates), rates, "o", color="black", markersize=3, alpha=0.6)
    ax.set_xticks(range(len(result["runs"]["seconds"])), [LABELS[n] for n in result["runs"]["seconds"]])
    ax.set_ylabel("objects/s, median; a dot is a run")
    ax.set_title(f"Deleting {objects:,} objects")


def _due(ax: Any, result: dict[str, Any]) -> None:
    pages = result["runs"]["pages"]
    for shift, (what, colour) in enumerate((("choosing", OURS), ("planning", PLAIN))):
        heights = [of[what] for of in pages.values()]
        ax.bar([n + 0.4 * shift for n in range(len(pages))], heights, 0.38, color=colour, label=what)
    ax.set_xticks([n + 0.2 for n in range(len(pages))], [f"{int(n):,}\nmarks" for n in pages])
    ax.set_ylabel("pages touched")
    ax.set_title(f"The same {result['sizes']['due']:,} marks are due")
    ax.legend(frameon=False)


def _drop(ax: Any, result: dict[str, Any]) -> None:
    runs = result["runs"]
    for at, run in enumerate(runs.values()):
        ax.bar(at, median(run["drop_ms"]), color=OURS)
        ax.plot([at] * len(run["drop_ms"]), run["drop_ms"], "o", color="black", markersize=3, alpha=0.6)
    ax.axhline(50, color="grey", linestyle=":", label="goal")
    ax.set_xticks(range(len(runs)), [_tablets(name) for name in runs])
    ax.set_ylabel("ms until a drop answers; a dot is a drop")
    ax.set_title("Dropping a table")
    ax.legend(frameon=False)


def _tablets(run: str) -> str:
    database, tablets = run.rsplit(" ", 1)
    return f"{database}\n{int(tablets):,}\ntablets"
