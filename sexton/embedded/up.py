"""`sexton up`: run the embedded stack in the foreground until Ctrl-C, SIGTERM, or the death of one of its parts."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from sexton.embedded.stack import Stack

_WATCH_SECONDS = 0.5
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(home: Path, worker: bool, report: Callable[[str], None]) -> None:
    """Start the stack, say where everything is, and watch it; returns when it was asked to stop.

    Raises:
        EmbeddedError: a part did not start or died; everything else has been stopped.
    """
    for number in _STOPPERS:
        signal.signal(number, signal.default_int_handler)
    stack = Stack(home)
    try:
        stack.start(worker, report)
        _addresses(stack, report)
        while True:
            stack.check()
            time.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        report("stopping …")
    finally:
        # A second Ctrl-C would leave children behind.
        for number in _STOPPERS:
            signal.signal(number, signal.SIG_IGN)
        stack.stop()
    report(f"stopped; data stays in {stack.home}")


def _addresses(stack: Stack, report: Callable[[str], None]) -> None:
    env = stack.environment()
    report("")
    report(f"Temporal UI  {env['SEXTON_TEMPORAL__UI_URL']}")
    report(f"S3           {env['SEXTON_S3__ENDPOINT_URL']} (keys in {stack.home / 'env'})")
    report(f"database     {env['SEXTON_DATABASE_URL']}")
    report(f"logs         {stack.home / 'logs'}")
    report("")
    report("In another terminal, in this directory:")
    if stack.home != Path(".sexton").resolve():
        report(f"  export SEXTON_HOME={stack.home}")
    report("  sexton doctor              is everything reachable?")
    report("  sexton settings show       every setting and where it comes from")
    report("  sexton status              what is due, what ran, what was kept")
    report("Ctrl-C stops the stack.")
