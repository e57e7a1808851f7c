"""The `sexton` command. A refusal is one line on stderr and exit code 1, wrong usage 64, Ctrl-C 130; no traceback.

A command module imports what is heavy (boto3, SQLAlchemy, temporalio) inside its functions: `sexton --help` is quick.
"""

import os
import sys

import typer

from config.sources import load_home_env
from sexton.interfaces.cli.commands import (
    api,
    binlog,
    binlog_gc,
    binlog_journal,
    blockers,
    check,
    contract,
    control,
    deletions,
    hold,
    init,
    instance,
    log,
    pace,
    plan,
    protection,
    quarantine,
    replica,
    round,
    schedules,
    settings,
    status,
    token,
    undelete,
    up,
    user,
    vault,
    wal,
    wal_purge,
    why,
)
from sexton.interfaces.cli.context import WrongUsage
from sexton.interfaces.cli.doctor import doctor
from sexton.kernel.errors import SextonError

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 64, 130
"""Exit codes; 0 is done; 2 is `plan`'s own: something to do; 3 is `check run`'s: not everything was seen."""
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Typer's error of every usage that is not one of its commands; it exports only what derives from it."""

app = typer.Typer(
    name="sexton",
    help="Durable garbage collection for databases that keep their files in object storage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done; 1 refused or failed; 2 from plan alone: something to do; "
    "3 from check run alone: it could not see everything; 64 wrong usage; 130 Ctrl-C.",
)
app.command("up")(up.up)
app.command("init")(init.init)
app.command("status")(status.status)
app.command("plan")(plan.plan)
app.command("apply")(plan.apply)
app.command("enable")(instance.enable)
app.command("why")(why.why)
app.command("audit")(deletions.audit)
app.command("calls")(log.calls)
app.command("undelete")(undelete.undelete)
app.command("stop")(control.stop)
app.command("start")(control.start)
app.command("holds")(blockers.holds)
app.command("doctor")(doctor.doctor)
app.command("pace")(pace.pace)
app.command("api")(api.api)
app.add_typer(instance.app, name="instance")
app.add_typer(vault.app, name="vault")
app.add_typer(round.app, name="round")
app.add_typer(check.app, name="check")
app.add_typer(schedules.app, name="schedules")
app.add_typer(hold.app, name="hold")
app.add_typer(control.lists, name="lists")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(protection.app, name="protection")
wal.app.command("purge")(wal_purge.purge)
for _told in (wal_purge.progress, wal_purge.now, wal_purge.cancel, wal_purge.pause, wal_purge.resume, wal_purge.retry):
    wal.app.command(_told.__name__)(_told)
app.add_typer(wal.app, name="wal")
for _of in (binlog_gc.gc, binlog_gc.progress, binlog_gc.cancel, binlog_gc.pause, binlog_gc.resume, binlog_gc.retry):
    binlog.app.command(_of.__name__)(_of)
binlog.app.command("journal")(binlog_journal.journal)
binlog.app.command("followers")(binlog_journal.followers)
binlog.app.command("follower-remove")(binlog_journal.follower_remove)
app.add_typer(binlog.app, name="binlog")
app.add_typer(replica.app, name="replica")
app.add_typer(token.app, name="token")
app.add_typer(user.app, name="user")
app.add_typer(contract.app, name="contract")
app.add_typer(settings.app, name="settings")


def main() -> None:
    """Run the command line of this process and end it.

    Without the interpreter's own exit: Temporal's threads can abort there after the work is done (sdk-python #300).
    """
    code = run()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # closed by whoever started us
                stream.flush()
        except OSError:
            code = code or REFUSED  # nobody could read what we said
    os._exit(code)


def run() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        load_home_env()
        ended = app(standalone_mode=False, prog_name="sexton")
        return ended if isinstance(ended, int) else 0
    except UsageError as e:
        e.show()  # type: ignore[attr-defined]
        return WRONG_USAGE
    except typer.Abort as e:
        if isinstance(e.__context__, KeyboardInterrupt):  # at a question
            return INTERRUPTED
        sys.stderr.write("not done: it was not answered with yes (where nobody can answer: --yes)\n")
        return REFUSED
    except SextonError as e:
        sys.stderr.write(f"error: {e}\n")
        return WRONG_USAGE if isinstance(e, WrongUsage) else REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as e:  # of shell completion, or of a pipe that was closed
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except OSError as e:  # what we print goes nowhere: a full disk, a closed pipe
        if sys.stderr is not None:
            sys.stderr.write(f"error: cannot write: {e.strerror}\n")
        return REFUSED
    except Exception as e:
        driver = getattr(e, "orig", None)  # SQLAlchemy's; imported only by commands that use it
        if driver is None:
            raise
        said = str(driver).strip().splitlines()[0]
        if "database is locked" in said:
            said += "; an open transaction is its one writer: nothing can be claimed meanwhile. End it, then try again"
        sys.stderr.write(f"error: the database answered: {said}\n")
        return REFUSED
