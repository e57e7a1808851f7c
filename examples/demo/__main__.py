"""``python -m examples.demo``: start the embedded stack, tell the story, compare every number, stay or stop.

Exit code 0: every number agreed with the independent listing. 1: one did not, or a part did not start.
"""

import argparse
import signal
import sys
import time
from types import FrameType

from examples.demo.console import Console, DemoFailed

STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCH_SECONDS = 0.5
INTERRUPTED = 130


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="Garbage goes, for good reasons, and nothing else.")
    parser.add_argument("--exit", action="store_true", help="stop the stack at the end instead of waiting for Ctrl-C")
    parser.add_argument("--files", type=int, default=12_000, help="files to load, at least 500 (default 12,000)")
    options = parser.parse_args()
    if options.files < 500:
        parser.error("--files must be at least 500")
    console = Console()
    console.say("Sexton's demo: a real little database, a real object store, real workflows, on this machine.")

    # After the first line: these take a second to import.
    from config.sources import home
    from sexton.embedded.stack import Stack
    from sexton.errors import SextonError

    for number in STOPPERS:
        signal.signal(number, _interrupt)
    stack = Stack(home())
    told = False
    try:
        console.say(f"starting the stack; data and logs stay in {stack.home}")
        stack.start(worker=True, report=lambda line: console.say(f"  {line}"))
        from examples.demo.story import Story

        console.connect(stack.home, stack.environment())
        Story(console, stack.home, stack.environment(), options.files).tell()
        told = True
        if not options.exit:
            print("\nThe stack stays up. Ctrl-C stops it.", flush=True)
            while True:
                stack.check()
                time.sleep(WATCH_SECONDS)
    except (SextonError, DemoFailed) as e:
        console.say(f"the demo failed: {e}")
        return 1
    except KeyboardInterrupt:
        console.say("stopping …")
    finally:
        # A second Ctrl-C would leave servers behind.
        for number in STOPPERS:
            signal.signal(number, signal.SIG_IGN)
        stack.stop()
    if not told:
        return INTERRUPTED
    return 1 if console.disagreements else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
