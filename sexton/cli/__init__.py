"""The `sexton` command. A refusal is one line on stderr and exit code 1, a usage error 2, Ctrl-C 130; no traceback.

A command module imports what is heavy (boto3, SQLAlchemy, temporalio) inside its functions: `sexton --help` is quick.
"""

import os
import sys

import typer

from config.sources import load_home_env
from sexton.cli import contract, doctor, init, instance, plan, settings, status, up, vault
from sexton.errors import SextonError

app = typer.Typer(
    name="sexton",
    help="Durable garbage collection for databases that keep their files in object storage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("init")(init.init)
app.command("status")(status.status)
app.command("plan")(plan.plan)
app.command("apply")(plan.apply)
app.command("enable")(instance.enable)
app.command("why")(status.why)
app.command("doctor")(doctor.doctor)
app.add_typer(instance.app, name="instance")
app.add_typer(vault.app, name="vault")
app.add_typer(plan.rounds, name="round")
app.add_typer(contract.app, name="contract")
app.add_typer(settings.app, name="settings")


def main() -> None:
    """Run the command line of this process and end it.

    Without the interpreter's own exit: Temporal's threads can abort there after the work is done (sdk-python #300).
    """
    code = _run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    try:
        load_home_env()
        app()
    except SextonError as e:
        sys.stderr.write(f"error: {e}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as e:
        driver = getattr(e, "orig", None)  # SQLAlchemy's; imported only by commands that use it
        if driver is None:
            raise
        sys.stderr.write(f"error: the database answered: {str(driver).strip().splitlines()[0]}\n")
        return 1
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    return 0
