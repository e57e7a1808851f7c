"""Wait for work that an operation started, show how far it is, and return its report."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import typer

from sexton.database.engine import AWAY
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.operations import FOLLOWED
from sexton.interfaces.cli.output import styled_console
from sexton.interfaces.cli.watching import REDRAW_SECONDS, screen
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operations.fields import StartedWork


def follow(operation: str, service: "Deployment", started: "StartedWork") -> Any:
    """Return the report of started work; that of a failed round is read from the database.

    Ctrl-C ends the waiting, not the work.
    """
    from temporalio.exceptions import ApplicationError, TerminatedError

    from sexton.runtime.temporal import works
    from workflows import ids

    work = getattr(works, FOLLOWED[operation])
    run, subject = (started.workflow, started.run), started.topic or started.instance
    try:
        with ExitStack() as stack:
            if work is works.ROUNDS and styled_console(stderr=True).is_terminal and not wants_json():
                stack.enter_context(_shown(service, subject))
            return work.follow(service.settings, run, subject, lambda text: typer.echo(text, err=True))
    except SextonError as e:
        cause = getattr(e.__cause__, "cause", None)
        if isinstance(cause, ApplicationError) and cause.type == ids.ROUND_FAILED:
            return service.stores.reports.report(int(cause.details[0]))
        if work is works.ROUNDS and isinstance(cause, TerminatedError):
            raise SextonError(
                f"{e}; once its lease has ended, the next round deletes what it claimed; to prevent that: "
                f"sexton stop {subject} --reason TEXT"
            ) from e
        raise


@contextmanager
def _shown(service: "Deployment", instance: str) -> Iterator[None]:
    """Show at the terminal how far the round of an instance is, until the block ends."""
    from sexton.insight.progress import read_running

    is_over = threading.Event()

    def redraw() -> None:
        with screen(lambda: ["the round has not begun"], stderr=True) as show:
            while not is_over.wait(REDRAW_SECONDS):
                try:
                    show([work for work in read_running(service.db, instance) if work.work == "round"])
                except AWAY:  # the round goes on without the database that this command reads
                    continue

    view = threading.Thread(target=redraw, daemon=True)
    view.start()
    try:
        yield
    finally:
        is_over.set()
        view.join()
