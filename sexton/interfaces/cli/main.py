"""Register the commands of `sexton`, run one, and turn every failure into one line on stderr and an exit code.

Command modules import heavy libraries (boto3, SQLAlchemy, temporalio) inside their functions, so that `sexton --help`
is quick.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from config.sources import load_home_env
from sexton.interfaces.cli import operations
from sexton.interfaces.cli.commands import (
    after_restore,
    api,
    binlog,
    binlog_gc,
    binlog_journal,
    blockers,
    check,
    check_signals,
    contract,
    control,
    deletions,
    ducklake,
    hold,
    init,
    instance,
    log,
    marks,
    owner,
    owner_operations,
    pace,
    plan,
    protection,
    protection_selftest,
    quarantine,
    replica,
    round,
    schedules,
    settings,
    status,
    trial,
    undelete,
    up,
    vault,
    wal,
    wal_purge,
    wal_round,
    why,
    worker,
)
from sexton.interfaces.cli.context import WrongUsage
from sexton.interfaces.cli.doctor import doctor
from sexton.interfaces.cli.groups import EMERGENCIES, PlanGroup, SextonGroup
from sexton.interfaces.cli.hints import NOT_TEXT, plain_usage
from sexton.kernel.errors import SextonError
from sexton.kernel.extras import missing_extra
from sexton.kernel.printable import escaped_output

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 64, 130  # beside the exit codes of `plan` (2) and of `check run` (3 and 4)
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The base of Typer's errors about wrong usage; Typer exports only the classes derived from it."""

app = typer.Typer(
    name="sexton",
    cls=SextonGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable garbage collection for databases that keep their files in object storage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done; 1 refused or failed; 2 (plan only) there is something to do; "
    "3, 4 (check run only) the check was incomplete, or confirms a loss; 64 wrong usage; 130 Ctrl-C.",
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


COMMANDS: dict[str, Callable[..., object]] = {
    "up": up.up,
    "init": init.init,
    "status": status.status,
    "apply": plan.apply,
    "enable": instance.enable,
    "why": why.why,
    "deletions": deletions.deletions,
    "log": log.log,
    "undelete": undelete.undelete,
    "stop": control.stop,
    "start": control.start,
    "blockers": blockers.blockers,
    "doctor": doctor.doctor,
    "after-restore": after_restore.after_restore,
    "pace": pace.pace,
    **api.COMMANDS,
    **owner_operations.commands(),
}
"""`sexton NAME` → its function."""

GROUPS: dict[str, typer.Typer] = {
    "instance": instance.app,
    "owner": owner.app,
    "ducklake": ducklake.app,
    "vault": vault.app,
    "round": round.app,
    "plan": plan.app,
    "marks": marks.app,
    "check": check.app,
    "schedules": schedules.app,
    "hold": hold.app,
    "lists": control.lists,
    "quarantine": quarantine.app,
    "protection": protection.app,
    "wal": wal.app,
    "binlog": binlog.app,
    "replica": replica.app,
    **operations.groups(),
    "trial": trial.app,
    "contract": contract.app,
    "settings": settings.app,
    "worker": worker.app,
}
"""`sexton NAME …` → the group of commands that its module declares."""

COMMANDS_OF_OTHER_MODULES: tuple[tuple[typer.Typer, dict[str, Callable[..., object]]], ...] = (
    (protection.app, {"selftest": protection_selftest.selftest}),
    (
        check.app,
        {
            "progress": check_signals.progress,
            "cancel": check_signals.cancel,
            "pause": check_signals.pause,
            "resume": check_signals.resume,
            "retry": check_signals.retry,
        },
    ),
    (
        wal.app,
        {
            "purge": wal_purge.purge,
            "progress": wal_purge.progress,
            "now": wal_purge.now,
            "cancel": wal_purge.cancel,
            "pause": wal_purge.pause,
            "resume": wal_purge.resume,
            "retry": wal_purge.retry,
        },
    ),
    (
        binlog.app,
        {
            "gc": binlog_gc.gc,
            "progress": binlog_gc.progress,
            "cancel": binlog_gc.cancel,
            "pause": binlog_gc.pause,
            "resume": binlog_gc.resume,
            "retry": binlog_gc.retry,
            "journal": binlog_journal.journal,
            "followers": binlog_journal.followers,
            "remove-follower": binlog_journal.remove_follower,
        },
    ),
)
"""Group → commands that another module than the group's own defines."""

RUNNING = ("schedules", "settings", "worker", "api", "console", "contract", "trial")
PANELS: dict[str, tuple[str, ...]] = {
    "Set up": ("init", "up", "instance", "owner", "ducklake", "enable", "vault", *RUNNING),
    "Owners' records": tuple(owner_operations.commands()),
    "Inspect": ("status", "blockers", "why", "marks", "deletions", "log", "check", "doctor"),
    "Delete": ("plan", "apply", "round"),
    "Stop, hold and protect": ("stop", "start", "hold", "lists", "pace", "protection", "quarantine", "token"),
    "Topics and binlogs": ("wal", "binlog", "replica"),
    EMERGENCIES: ("undelete", "after-restore"),
}
"""Panel of `sexton --help` → its commands and groups, in order; docs/commands.md has the same headings."""


def _register(group: typer.Typer, commands: Mapping[str, Callable[..., object]]) -> None:
    for name, function in commands.items():
        group.command(name)(function)


def _register_all() -> None:
    for group, commands in COMMANDS_OF_OTHER_MODULES:
        _register(group, commands)
    wal.app.add_typer(wal_round.app, name="round", cls=SextonGroup)
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    for name in dict.fromkeys([*panel_of, *COMMANDS, *GROUPS]):
        panel = panel_of.get(name)
        if name in COMMANDS:
            app.command(name, rich_help_panel=panel)(COMMANDS[name])
        else:
            cls = PlanGroup if name == "plan" else SextonGroup
            app.add_typer(GROUPS[name], name=name, cls=cls, rich_help_panel=panel)


_register_all()


def main() -> None:
    """Run the command line of this process and end the process.

    This bypasses the interpreter's own exit: Temporal's threads can abort there after the work is done
    (sdk-python #300).
    """
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


def run() -> int:
    """Run the command line of this process and return its exit code. Its output has no control characters."""
    with escaped_output():
        return _run()


def _run() -> int:
    try:
        load_home_env()
        result = app(standalone_mode=False, prog_name="sexton")
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
    """Return one sentence about a missing extra, bytes, or the database's refusal; empty for a defect."""
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error)
    if isinstance(error, UnicodeEncodeError):  # from bytes that a terminal of another encoding sent
        return NOT_TEXT
    driver_error = getattr(error, "orig", None)  # set by SQLAlchemy, which only commands that need it import
    return "" if driver_error is None else _driver_message(driver_error)


def _print_error(text: str) -> None:
    if sys.stderr is not None:  # None when the parent process closed it
        sys.stderr.write(f"{text}\n")


def _driver_message(driver_error: object) -> str:
    """Return the first line of a database driver's error, with the way out where it is known."""
    message = str(driver_error).strip().splitlines()[0]
    if getattr(driver_error, "sqlstate", "") == "42501":
        message += "; log in as Sexton's own role"
    return f"{'cannot reach the database' if message.startswith('connection') else 'the database answered'}: {message}"
