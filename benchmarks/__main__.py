"""Run benchmarks: `python -m benchmarks delete --pairs 7 --objects 100000`, `python -m benchmarks all --quick`.

A run of the full size is judged, kept in benchmarks/results and shown in docs/benchmarks.md; others are only printed.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from benchmarks import (
    barrier,
    chart,
    check,
    client,
    commands,
    console,
    deletes,
    drop,
    due,
    heavy,
    keys,
    memory,
    paced,
    plan,
    protect,
    reconcile,
    record,
    results,
    shards,
    takeover,
    topics,
)
from benchmarks.results import Result
from benchmarks.scratch import stoppable
from benchmarks.store import KEYS_A_MARK
from sexton.kernel.errors import SextonError

OBJECTS, PAIRS, SECONDS = 100_000, 7, 180.0
QUICK_OBJECTS, QUICK_PAIRS, QUICK_SECONDS = 2_000, 1, 3.0
QUICK_TOPICS, QUICK_RECORD = 200, 1_000_000
QUICK_PROTECT = 10_000
QUICK_DUE, QUICK_DROP = (10_000, 100_000), (1_000, 10_000)
ALL = (
    "delete",
    "barrier",
    "commands",
    "keys",
    "heavy",
    "scale",
    "shards",
    "takeover",
    "plan",
    "memory",
    "due",
    "drop",
    "protect",
    "client",
    "reconcile",
    "check",
    "topics",
    "console",
    "pace",
)


def main() -> int:
    """Run what is named; the exit code says whether every goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="+", choices=["all", *ALL, "overhead", "record"])
    parser.add_argument("--objects", type=int, help=f"objects to delete, a multiple of {KEYS_A_MARK} ({OBJECTS:,})")
    parser.add_argument("--pairs", type=int, help=f"turns of all contenders ({PAIRS})")
    parser.add_argument("--seconds", type=float, help=f"length of each run of pace ({SECONDS:g})")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it works, not how fast it is")
    parser.add_argument("--soak", action="store_true", help="due: also 10,000,000 marks; scale: also on Spark")
    given = parser.parse_args()
    objects = given.objects or (QUICK_OBJECTS if given.quick else OBJECTS)
    pairs = given.pairs or (QUICK_PAIRS if given.quick else PAIRS)
    seconds = given.seconds or (QUICK_SECONDS if given.quick else SECONDS)
    if objects % KEYS_A_MARK:
        parser.error(f"--objects: {objects} is no multiple of {KEYS_A_MARK}")
    full = {
        **dict.fromkeys(ALL, not given.quick),
        **dict.fromkeys(("delete", "overhead"), objects >= OBJECTS and pairs >= PAIRS),
        "keys": not given.quick and (given.objects or keys.OBJECTS) >= keys.OBJECTS,
        "record": not given.quick and (given.objects or record.ROWS) >= record.ROWS,
        "pace": seconds >= SECONDS,
    }
    run: dict[str, Callable[[], Result]] = {
        "delete": lambda: deletes.run(objects, pairs),
        "overhead": lambda: deletes.run(objects, pairs, peers=False),
        "due": lambda: due.run(QUICK_DUE if given.quick else due.SOAK if given.soak else due.SIZES),
        "keys": lambda: (
            keys.run(given.objects or QUICK_OBJECTS, 1) if given.quick else keys.run(given.objects or keys.OBJECTS)
        ),
        "barrier": lambda: barrier.run(QUICK_OBJECTS, 1) if given.quick else barrier.run(),
        "commands": lambda: commands.run(QUICK_OBJECTS, 1) if given.quick else commands.run(),
        "takeover": lambda: takeover.run(QUICK_OBJECTS * 5) if given.quick else takeover.run(),
        "plan": lambda: plan.run(QUICK_PROTECT) if given.quick else plan.run(),
        "heavy": lambda: heavy.run(QUICK_OBJECTS, QUICK_PAIRS) if given.quick else heavy.run(),
        "scale": lambda: (
            heavy.scale(QUICK_DROP[:1], QUICK_DROP[:1])
            if given.quick
            else heavy.scale(on_spark=heavy.SOAK if given.soak else heavy.ON_SPARK)
        ),
        "shards": lambda: shards.run([shards.Case(2, 0.03, QUICK_OBJECTS)], 1) if given.quick else shards.run(),
        "memory": lambda: memory.run(QUICK_OBJECTS) if given.quick else memory.run(),
        "drop": lambda: drop.run(QUICK_DROP if given.quick else drop.SIZES),
        "protect": lambda: protect.run(QUICK_PROTECT, QUICK_PAIRS, QUICK_OBJECTS) if given.quick else protect.run(),
        "client": lambda: client.run(QUICK_OBJECTS, QUICK_PAIRS) if given.quick else client.run(),
        "reconcile": lambda: reconcile.run(QUICK_DUE[1], QUICK_PAIRS) if given.quick else reconcile.run(),
        "check": lambda: check.run(QUICK_DUE[1], QUICK_PAIRS) if given.quick else check.run(),
        "record": lambda: record.run(QUICK_RECORD) if given.quick else record.run(given.objects or record.ROWS),
        "topics": lambda: topics.run(QUICK_TOPICS, QUICK_PAIRS) if given.quick else topics.run(),
        "console": lambda: console.run(console.QUICK, 5) if given.quick else console.run(),
        "pace": lambda: paced.run(seconds),
    }
    missed = False
    with stoppable():
        for name in dict.fromkeys(n for named in given.names for n in (ALL if named == "all" else (named,))):
            machine = results.machine()
            result = replace(run[name](), machine=machine)
            if not full[name]:
                results.show(results.unjudged(result))
                continue
            results.show(result)
            results.keep(result)
            chart.draw()
            results.write_page()
            missed = missed or any(f.met is False for f in result.figures)
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SextonError as e:
        sys.exit(f"error: {e}")
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started is stopped, and its files are removed")
