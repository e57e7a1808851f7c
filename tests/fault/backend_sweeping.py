"""Who sweeps, a process: ``python -m tests.fault.backend_sweeping DIRECTORY CUT UID...``, to be killed."""

import sys
import time
from pathlib import Path

from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.sweeping import BackendSweeper
from tests.integration.replication.agent.node import CutSource


def main(directory: str, cut: str, *uids: str) -> None:
    granted = CutSource(page=1)
    for uid in uids:
        granted.grant(uid, int(cut))
    # A pause for each page: on a busy machine the whole sweep could end before it is killed.
    BackendSweeper(SqliteMeta(Path(directory), "7"), granted, keys=3).sweep(lambda: time.sleep(0.003))
    print(granted.outcomes())


if __name__ == "__main__":
    main(*sys.argv[1:])
