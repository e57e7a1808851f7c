"""Who sweeps, a process: ``python -m tests.fault.backend_sweeping DIRECTORY CUT VISITS UID...``.

It kills itself at this visit of a crash point or of the pause between two pages; 0: never.
"""

import itertools
import os
import signal
import sys
from pathlib import Path

from sexton.kernel.crash_points import installed
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.sweeping import BackendSweeper
from tests.integration.replication.agent.node import CutSource


def main(directory: str, cut: str, visits: str, *uids: str) -> None:
    seen = itertools.count(1)

    def visit(_: str = "page") -> None:
        if next(seen) == int(visits):
            os.kill(os.getpid(), signal.SIGKILL)

    granted = CutSource(page=1)
    for uid in uids:
        granted.grant(uid, int(cut))
    with installed(visit):
        BackendSweeper(SqliteMeta(Path(directory), "7"), granted, keys=3).sweep(visit)
    print(granted.outcomes())


if __name__ == "__main__":
    main(*sys.argv[1:])
