"""Open what a command works with (settings, the checked database, Temporal), and parse words of the command line."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.interfaces.cli.json_output import note_action
from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings
    from sexton.interfaces.operator_service import OperatorService
    from sexton.operators.call_log.model import CallRecord

T = TypeVar("T")
WhyOption = Annotated[str, typer.Option("--reason", help="Why; recorded in sexton log.")]
OptionalInstance = Annotated[
    str | None, typer.Argument(metavar="INSTANCE", help="The instance; default: the only one.")
]
UNIT_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
NO_WORKER = "No worker is known to run; the signal takes effect when one starts (sexton worker run)."


class WrongUsage(SextonError):
    """The command line contradicts itself, or an argument has the wrong form: exit code 64."""


@contextmanager
def open_database() -> Iterator["OperatorService"]:
    """Yield the operator service of the settings' database, after checking its schema and its deployment."""
    from config.settings import load
    from sexton.database import schema
    from sexton.database.engine import Database
    from sexton.interfaces.operator_service import OperatorService

    settings = load()
    deployment = settings.require_deployment()
    db = Database.open(settings.require_database_url(), live_url=settings.live_database_url)
    try:
        schema.check(db, deployment)
        yield OperatorService(settings, db)
    finally:
        db.close()


def log_call(
    service: "OperatorService",
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
    from sexton.operators.call_log.model import CallRecord
    from sexton.operators.controls.store import whoami

    return CallRecord(who=whoami(), source=f"cli@{socket.gethostname()}", action=action, **fields)


def one_instance(service: "OperatorService", instance: str | None) -> str:
    """Return the given instance, or the only registered one if none is given."""
    return service.stores.registry.resolve_instance(instance)


def named_or_only(service: "OperatorService", instance: str | None) -> str:
    """Return the given name, unverified, so that its refusal is recorded; or the only registered instance."""
    return one_instance(service, None) if instance is None else instance


def ask_temporal(settings: "Settings", call: Callable[["Client"], Awaitable[T]]) -> T:
    """Connect to Temporal and return the result of ``call``. Raise ``SextonError`` if Temporal refuses it."""
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    async def connect_and_call() -> T:
        return await call(await connect(settings))

    try:
        return asyncio.run(connect_and_call())
    except RPCError as e:
        raise SextonError(f"Temporal refused: {e.message}") from e


def parse_duration(text: str) -> int:
    """Return the seconds of ``30m``, ``12h``, ``7d`` or ``2w``."""
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", text)
    if match is None:
        raise WrongUsage(f"{text!r} is not a duration; write a number and m, h, d or w, e.g. 30m, 12h, 7d, 2w")
    return int(match[1]) * UNIT_SECONDS[match[2]]


def parse_ref(text: str) -> Ref:
    """Return the mark that ``KIND/ID`` names."""
    kind, _, id_ = text.partition("/")
    if not (kind and id_):
        raise WrongUsage(f"{text!r} names no mark; write KIND/ID, e.g. dropped/t12")
    return Ref(kind, id_)


def require_reason(reason: str) -> str:
    """Return the reason, or refuse an empty one: other operators must be able to read why."""
    if not reason.strip():
        raise WrongUsage("--reason is empty; write a few words that other operators can read")
    # A terminal of another encoding may send bytes that are not text. A stop must not fail because of them.
    return reason.strip().encode(errors="replace").decode()
