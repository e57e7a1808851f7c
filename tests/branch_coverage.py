"""Measure branch coverage per tier: `make coverage`, or `make coverage TIERS="unit activities"`."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

DATA = Path(__file__).parents[1] / ".sexton" / "coverage"
COVERAGE = (sys.executable, "-m", "coverage")


def clear() -> None:
    """Delete the data of earlier runs."""
    shutil.rmtree(DATA, ignore_errors=True)


def command(tier: str, module: str) -> list[str]:
    """Return the command that runs a module and its child processes, and measures them for a tier."""
    (DATA / tier).mkdir(parents=True, exist_ok=True)
    return [*COVERAGE, "run", "--branch", "--parallel-mode", f"--data-file={DATA / tier / 'data'}", "-m", module]


def report(tiers: Sequence[str]) -> list[str]:
    """Return a line per tier and one for all: the percentage of lines and branches that its tests reach."""
    lines = []
    measured = [tier for tier in tiers if any((DATA / tier).glob("data.*"))]
    for name, folders in (*((tier, [tier]) for tier in measured), ("all", measured)):
        combined = DATA / f"{name}.combined"
        sources = [str(file) for folder in folders for file in sorted((DATA / folder).glob("data.*"))]
        subprocess.run([*COVERAGE, "combine", "-q", "--keep", f"--data-file={combined}", *sources], check=True)
        total = subprocess.check_output([*COVERAGE, "report", "--format=total", f"--data-file={combined}"], text=True)
        lines.append(f"coverage {name:12} {total.strip():>3} %")
    return lines
