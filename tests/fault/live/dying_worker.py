"""A worker that kills itself at a crash point: ``python -m tests.fault.live.dying_worker POINT``."""

import asyncio
import os
import signal
import sys

from sexton.interfaces.worker import process
from sexton.kernel.crash_points import installed
from tests.support.crashes import NAMES


def main(point: str) -> None:
    """Serve until the point is reached; nothing is finished, flushed or reported after it."""
    if point not in NAMES:
        sys.exit(f"{point} is no crash point; choose one of {', '.join(sorted(NAMES))}")

    def die(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with installed(die):
        asyncio.run(process.main())


if __name__ == "__main__":
    main(sys.argv[1])
