"""Run a command of `sexton`, and turn every failure into one line on stderr and an exit code."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from config.sources import load_home_env
from sexton.interfaces.cli import SERVES
from sexton.interfaces.cli.groups import NOT_TEXT, plain_usage
from sexton.interfaces.cli.tree import Root
from sexton.kernel.errors import SextonError, WrongUsage, missing_extra
from sexton.kernel.printable import escaped_output

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 64, 130  # beside the exit codes of `plan` (2) and of `check run` (3 and 4)
PAGES = next((folder / "docs" for folder in Path(__file__).parents[2:4] if (folder / "docs").is_dir()), "docs")
"""What messages name as docs/NAME.md: in the package, or in the repository."""
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The base of Typer's errors about wrong usage; Typer exports only the classes derived from it."""

app = typer.Typer(
    name="sexton",
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable garbage collection for databases that keep their files in object storage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done; 1 refused or failed; 2 (plan only) there is something to do; "
    "3, 4 (check run only) the check was incomplete, or confirms a loss; 64 wrong usage; 130 Ctrl-C. "
    f"Pages that messages name as docs/NAME.md are in {PAGES}.",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"sexton {version('sexton')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def root() -> Any:
    """Return the command `sexton`."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line of this process and end the process.

    This bypasses the interpreter's own exit: Temporal's threads can abort there after the work is done
    (sdk-python #300).
    """
    if not SERVES:
        gc.set_threshold(200_000)  # a tenth of a short command's time would be spent on looking for garbage
    code = run()
    if tracing := sys.modules.get("sexton.runtime.temporal.tracing"):
        tracing.flush()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None when the parent process closed it
                stream.flush()
        except OSError:
            code = code or REFUSED  # the output was lost
    os._exit(code)


@escaped_output()
def run() -> int:
    """Run the command line of this process and return its exit code. Its output has no control characters."""
    try:
        load_home_env()
        result = root()(standalone_mode=False, prog_name="sexton")
        return result if isinstance(result, int) else 0
    except UsageError as e:
        e.message = plain_usage(e.message)  # type: ignore[attr-defined]
        e.show()  # type: ignore[attr-defined]
        return WRONG_USAGE
    except typer.Abort as e:
        if isinstance(e.__context__, KeyboardInterrupt):  # Ctrl-C at a prompt
            return INTERRUPTED
        _print_error("Aborted: not confirmed. Use --yes in a non-interactive shell.")
        return REFUSED
    except SextonError as e:
        _print_error(f"error: {e}")
        return WRONG_USAGE if isinstance(e, WrongUsage) else REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as e:  # raised by shell completion, or after a pipe was closed
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except OSError as e:  # the output cannot be written: a full disk, a closed pipe
        _print_error(f"error: cannot write: {e.strerror}")
        return REFUSED
    except Exception as e:
        way_out = _explained(e)
        if not way_out:
            raise
        _print_error(f"error: {way_out}")
        return REFUSED


def _explained(error: Exception) -> str:
    """Return one sentence about a missing extra, bytes, or the database's refusal, with the way out where it is known.

    Empty for a defect.
    """
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error)
    if isinstance(error, UnicodeEncodeError):  # from bytes that a terminal of another encoding sent
        return NOT_TEXT
    driver_error = getattr(error, "orig", None)  # set by SQLAlchemy, which only commands that need it import
    if driver_error is None:
        return ""
    message = str(driver_error).strip().splitlines()[0]
    if getattr(driver_error, "sqlstate", "") == "42501":
        message += "; log in as Sexton's own role"
    return f"{'cannot reach the database' if message.startswith('connection') else 'the database answered'}: {message}"


def _print_error(text: str) -> None:
    if sys.stderr is not None:  # None when the parent process closed it
        sys.stderr.write(f"{text}\n")
