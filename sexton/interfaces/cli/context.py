"""Open what a command works with, and record what it does."""

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.output import note_action

if TYPE_CHECKING:
    from sexton.operators.call_log import CallRecord
    from sexton.runtime.deployment import Deployment

OptionalInstance = Annotated[
    str | None, typer.Argument(metavar="INSTANCE", help="The instance; default: the only one.")
]


@contextmanager
def open_database() -> Iterator["Deployment"]:
    """Yield the operator service of the settings' database, after checking its schema and its deployment."""
    from config.settings import load
    from sexton.database import schema
    from sexton.database.engine import Database
    from sexton.runtime.deployment import Deployment

    settings = load()
    deployment = settings.require_deployment()
    with closing(Database.open(settings.require_database_url(), live_url=settings.live_database_url)) as db:
        schema.check(db, deployment)
        yield Deployment(settings, db)


def log_call(
    service: "Deployment",
    action: str,
    instance: str = "",
    subject: str = "",
    reason: str = "",
    *,
    blocks_deletion: bool = False,
) -> AbstractContextManager[None]:
    """Record in the call log what is about to be done, by whom, and how it ended: see ``sexton log``.

    ``blocks_deletion``: the action only blocks deletions, so it is done even if it cannot be recorded.
    """
    note_action(action=action, instance=instance, subject=subject, reason=reason)
    call = cli_call(action, instance=instance, subject=subject, reason=reason)
    return service.stores.calls.recorded(call, keeps=blocks_deletion)


def cli_call(action: str, **fields: str) -> "CallRecord":
    """Return the entry of the call log for what this process' user does; ``fields``: of ``CallRecord``."""
    from sexton.operators.call_log import CallRecord
    from sexton.operators.controls.store import whoami

    return CallRecord(who=whoami(), source=f"cli@{socket.gethostname()}", action=action, **fields)
