"""``python -m examples.demo``: start the embedded stack, tell the chosen parts of the story, then stay or stop.

Exit code 0: every number agreed with independent listings. 1: a number did not, or a part did not start. 130: Ctrl-C.
"""

import argparse
import os
import signal
import sys
from types import FrameType

from examples.demo.console import Console, DemoFailed

PARTS = ("files", "wal", "binlog", "catalog")
SINGLE_PARTS = (*PARTS, "ducklake")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
FOREIGN = ("AWS_", "PG", "TEMPORAL_", "SPARK_", "JAVA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""How the names of variables begin that would lead clients elsewhere: the demo has servers of its own."""
STOPPED = "Every server is stopped."


def main() -> int:
    """Run the demo; return the exit code."""
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    console = Console()
    for name in [name for name in os.environ if name.upper().startswith(FOREIGN)]:
        del os.environ[name]
    try:
        return _run(console, _parsed())
    except KeyboardInterrupt:
        console.say(STOPPED)
        return INTERRUPTED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo", description="Sexton deletes the garbage of a small database, and nothing else."
    )
    parser.add_argument("--exit", action="store_true", help="stop the stack at the end instead of waiting for Ctrl-C")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--part", choices=SINGLE_PARTS, default="files", help="show only this part (default: files)")
    parts.add_argument("--all", action="store_true", help="show all parts: files, wal, binlog, catalog")
    return parser.parse_args()


def _run(console: Console, options: argparse.Namespace) -> int:
    """Show the parts on a stack of their own; whatever happens, no server outlives the call."""
    console.act("A small database, an object store and real workflows, on this machine")
    # Imported here, because this takes a second, and the first line must not.
    from config.sources import home
    from examples.demo.stage import Stage
    from sexton.kernel.errors import SextonError

    stage = Stage(console, home())
    try:
        stage.start()
        parts = PARTS if options.all else (options.part,)
        stage.show(parts, stays=not options.exit)
        if not options.exit:
            stage.stay()
        _ignore_signals()  # a second Ctrl-C must not leave servers behind
        console.act("Stopping")
        stage.stop()
        console.say(STOPPED)
    except (SextonError, DemoFailed) as error:
        console.say(f"The demo failed: {error}")
        return 1
    except KeyboardInterrupt:
        console.act("Interrupted; stopping")
        raise
    finally:
        _ignore_signals()
        stage.stop()
    return 1 if console.disagreements else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
