"""Runs `benchmarks.pace` as a program of its own and reads its lines: the pace against a limit that nobody told.

Goals: at least 0.9 of the limit, less than 1 % of the requests throttled, ten prefixes take ten times what one takes.
"""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.results import Figure, Result, at_least, at_most

SHARE, MOST_THROTTLED, LINEAR = 0.9, 1.0, 9.0
_RUN = re.compile(
    r"(?P<what>\d+ prefixes x [\d,]+ keys/s, \d+ workers), .*: (?P<rate>[\d,]+) keys/s, (?P<share>[\d.]+) of the limit"
    r".*throttled \((?P<throttled>[\d.]+) %\)"
)
_TIMES = re.compile(r"(?P<what>.*): (?P<times>[\d.]+) x$|(?P<ten>ten prefixes) take (?P<tenfold>[\d.]+) x")


def run(seconds: float) -> Result:
    """Measure; each of its runs takes so many seconds."""
    lines = []
    command = [sys.executable, "-m", "benchmarks.pace", f"{seconds:g}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Result("pace", {"seconds each": f"{seconds:g}"}, _figures(lines), {"lines": lines})


def _figures(lines: list[str]) -> list[Figure]:
    figures = []
    for line in lines:
        if found := _RUN.match(line):
            figures.append(at_least(f"{found['what']}: share of the limit", float(found["share"]), SHARE))
            throttled = float(found["throttled"])
            figures.append(at_most(f"{found['what']}: requests throttled", throttled, MOST_THROTTLED, "%"))
        elif found := _TIMES.match(line):
            what, times = found["what"] or "at the full limit", float(found["times"] or found["tenfold"])
            figures.append(at_least(f"ten prefixes against one, {what}", times, LINEAR))
    if not figures:
        raise ValueError("benchmarks.pace printed no figure that could be read")
    return figures
