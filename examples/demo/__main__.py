"""``python -m examples.demo``: start the embedded stack, tell the story, compare every number, stay or stop.

Exit code 0: every number agreed with the independent listing. 1: one did not, or a part did not start.
"""

import argparse
import signal
import sys
import time
from types import FrameType

from examples.demo import FOR_WORKERS, SMALL_LAG
from examples.demo.console import Console, DemoFailed

STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
FEWEST_FILES = 8_000


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="Garbage goes, for good reasons, and nothing else.")
    parser.add_argument("--exit", action="store_true", help="stop the stack at the end instead of waiting for Ctrl-C")
    parser.add_argument(
        "--files", type=int, default=12_000, help=f"files to load, at least {FEWEST_FILES:,} (default 12,000)"
    )
    options = parser.parse_args()
    if options.files < FEWEST_FILES:
        parser.error(f"--files must be at least {FEWEST_FILES:,}: fewer are gone before a worker could be killed")
    console = Console()
    console.say("Sexton's demo: a real little database, a real object store, real workflows, on this machine.")

    # After the first line: these take a second to import.
    from config.sources import home
    from sexton.kernel.errors import SextonError
    from sexton.runtime.embedded.stack import Stack
    from sexton.runtime.embedded.up import StackSupervisor

    for number in STOPPERS:
        signal.signal(number, _interrupt)
    stack = Stack(home())
    told = False
    try:
        console.say(f"starting the stack; data and logs stay in {stack.home}")
        stack.start(lambda line: console.say(f"  {line}"))
        began = time.monotonic()
        stack.launch_worker(settings=FOR_WORKERS)
        # While it starts.
        from examples.demo.rounds import unschedule
        from examples.demo.story import Story

        if unschedule(stack):
            console.say("  removed the schedule of an earlier `sexton up`; the next one makes it again")
        stack.await_worker()
        console.say(f"  worker    ready in {time.monotonic() - began:.1f} s")
        console.connect(stack.home, stack.environment() | SMALL_LAG)
        Story(console, stack, options.files).tell()
        told = True
        if not options.exit:
            print("\nThe stack stays up. Ctrl-C stops it.", flush=True)
            StackSupervisor(stack, console.say).supervise()
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
