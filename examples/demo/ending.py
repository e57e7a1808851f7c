"""End the story: the verdict, and a table of what was seen, the command for it, and the page about it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.demo.console import Console


class Sight(NamedTuple):
    """One row of the table at the end."""

    seen: str
    command: str
    page: str
    """Relative to ``docs/``."""


def print_verdict(console: Console) -> None:
    """Print whether every number agreed, and which numbers did not."""
    console.act("Verdict")
    if not console.disagreements:
        console.say("Every number agrees with listings and reads that do not use Sexton.")
        return
    console.say(f"{len(console.disagreements)} numbers disagree:")
    for line in console.disagreements:
        console.say(line)


def print_table(console: Console, sights: Sequence[Sight], home: Path, *, running: bool) -> None:
    """Print the table; commands only while there is a stack that they can reach.

    Args:
        console: where it is printed.
        sights: the rows.
        home: of the stack.
        running: the stack stays up after the demo.
    """
    print()
    if not running:
        console.table([("What you saw", "Page in docs/"), *((sight.seen, sight.page) for sight in sights)])
        return
    console.table([("What you saw", "Command", "Page in docs/"), *sights])
    print("\n  The commands work in another terminal, in this directory, after:")
    print(f"  export PATH={os.path.relpath(Path(sys.executable).parent)}:$PATH")
    if home != Path(".sexton").resolve():
        print(f"  export SEXTON_HOME={os.path.relpath(home)}", flush=True)
